#include "binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

namespace lockstep::app {

namespace {
int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
}  // namespace

std::set<int> processors(const std::string& cpu_list) {
  std::set<int> found;
  for (std::string_view rest = cpu_list; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view range = rest.substr(0, comma);
    const std::size_t dash = range.find('-');
    const int first = number(range.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    for (int processor = first; processor <= last; ++processor) found.insert(processor);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return found;
}

int fair_threads(const std::vector<record::RankInfo>& ranks, int rank) {
  const record::RankInfo& own = ranks.at(static_cast<std::size_t>(rank));
  const auto sharers = std::ranges::count_if(ranks, [&](const record::RankInfo& other) {
    return other.host == own.host && other.cpu_list == own.cpu_list;
  });
  return std::max(1, static_cast<int>(processors(own.cpu_list).size()) / static_cast<int>(sharers));
}

std::string oversubscription(const std::vector<record::RankInfo>& ranks,
                             const std::vector<int>& threads) {
  struct Host {
    std::string name;
    std::set<int> processors;
    int threads = 0;
  };
  std::map<int, Host> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Host& host = hosts[ranks[rank].host];
    host.name = ranks[rank].hostname;
    host.processors.merge(processors(ranks[rank].cpu_list));
    host.threads += threads.at(rank);
  }
  for (const auto& [index, host] : hosts) {
    const auto cores = static_cast<int>(host.processors.size());
    if (cores == 0 || host.threads <= cores) continue;
    return fmt::format(
        "{} threads share {} processor{} on {}, so measured times are too long; use fewer ranks on "
        "this host, a smaller --threads or another process binding",
        host.threads, cores, cores == 1 ? "" : "s", host.name);
  }
  return "";
}

std::string shared_gpu(const std::vector<record::RankInfo>& ranks) {
  for (std::size_t second = 1; second < ranks.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      const record::RankInfo &a = ranks[first], &b = ranks[second];
      if (a.device_uuid.empty() || a.host != b.host || a.device_uuid != b.device_uuid) continue;
      return fmt::format(
          "ranks {} and {} share a GPU on {}, so measured times are too long; start at most one "
          "rank per GPU",
          first, second, a.hostname);
    }
  }
  return "";
}

}  // namespace lockstep::app
