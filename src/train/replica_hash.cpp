#include "replica_hash.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

std::string require_equal_replicas(comm::Communicator& communicator, std::uint64_t hash,
                                   std::int64_t step) {
  const auto hashes = communicator.all_gather(fmt::format("{:016x}", hash));
  std::vector<int> others;
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[0]) others.push_back(static_cast<int>(rank));
  }
  if (!others.empty()) {
    throw AgreedError(
        core::ExitStatus::internal,
        fmt::format("the replicas have drifted apart after step {}: parameters of "
                    "rank(s) {} differ from rank 0's; suspect the memory or network of "
                    "those hosts, and start again from a checkpoint before it",
                    step, fmt::join(others, ", ")),
        others.front(), communicator.rank());
  }
  return hashes[0];
}

}  // namespace lockstep::train
