#include "replica_hash.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

std::string require_equal_replicas(comm::Communicator& world, int stages, std::uint64_t hash,
                                   std::int64_t step) {
  const auto hashes = world.all_gather(fmt::format("{:016x}", hash));
  const auto count = static_cast<std::size_t>(stages);
  std::vector<int> others;
  for (std::size_t rank = count; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[rank % count]) others.push_back(static_cast<int>(rank));
  }
  if (!others.empty()) {
    throw AgreedError(
        core::ExitStatus::internal,
        fmt::format("the replicas have drifted apart after step {}: parameters of "
                    "rank(s) {} differ from those of the first replica; suspect the memory or "
                    "network of those hosts, and start again from a checkpoint before it",
                    step, fmt::join(others, ", ")),
        others.front(), world.rank());
  }
  std::uint64_t sum = 0;
  for (std::size_t stage = 0; stage < count; ++stage)
    sum += std::stoull(hashes[stage], nullptr, 16);
  return fmt::format("{:016x}", sum);
}

}  // namespace lockstep::train
