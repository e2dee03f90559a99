#include "together.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

void together(Communicator& communicator, const std::function<void()>& work) {
  std::string mine;  // "STATUS MESSAGE" where this rank failed
  try {
    work();
  } catch (const core::Error& error) {
    mine = fmt::format("{} {}", static_cast<int>(error.status()), error.what());
  }
  for (const std::string& said : communicator.all_gather(mine)) {
    if (said.empty()) continue;
    int status = static_cast<int>(core::ExitStatus::internal);
    const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), status);
    const auto length = static_cast<std::size_t>(end - said.data());
    core::fail(static_cast<core::ExitStatus>(status),
               said.substr(std::min(length + 1, said.size())));
  }
}

std::string describe_rank(const Communicator& communicator) {
  return fmt::format("rank {} of {} on {}", communicator.rank(), communicator.size(), host_name());
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace lockstep::comm
