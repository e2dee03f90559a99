#include "rank_name.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

namespace lockstep::comm {

std::string describe_rank(const Communicator& communicator) {
  return fmt::format("rank {} of {} on {}", communicator.rank(), communicator.size(), host_name());
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace lockstep::comm
