#include "lockstep/train/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/core/stop_signal.hpp"

namespace lockstep::train {

namespace {

std::string join(const Entries& entries) {
  std::string text;
  for (const auto& [name, value] : entries) text += name + '\t' + value + '\n';
  return text;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    result.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

struct Entry {
  std::string name, value;
};

Entry split(const std::string& line) {
  const std::size_t tab = line.find('\t');
  return {line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1)};
}

/// Describes the first entry that differs between rank 0 (`first`) and rank `other_rank` (`other`).
std::string difference(const std::string& first, const std::string& other, int other_rank) {
  const auto a = lines(first);
  const auto b = lines(other);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) continue;
    const Entry entry = split(a[i]);
    return fmt::format("{} is '{}' on rank 0 but '{}' on rank {}", entry.name, entry.value,
                       split(b[i]).value, other_rank);
  }
  return fmt::format("rank {} has other entries than rank 0", other_rank);
}

}  // namespace

int agreed_signal(comm::Communicator& communicator) {
  std::array number{static_cast<double>(core::StopSignal::number())};
  communicator.maximum(number);
  return static_cast<int>(number[0]);
}

void require_equal(comm::Communicator& communicator, const Entries& mine, const std::string& what) {
  const auto texts = communicator.all_gather(join(mine));
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const int other = static_cast<int>(rank);
    throw AgreedError(
        core::ExitStatus::usage,
        fmt::format("the ranks do not have the same {0}: {1}; start all ranks with the same {0}",
                    what, difference(texts[0], texts[rank], other)),
        other, communicator.rank());
  }
}

}  // namespace lockstep::train
