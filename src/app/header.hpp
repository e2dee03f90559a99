#pragma once

#include <span>
#include <string>

#include "job.hpp"
#include "lockstep/train/memory.hpp"

namespace lockstep::app {

/// "1 rank", "2 ranks".
std::string plural(std::int64_t count, std::string_view noun);

/// 11173962 -> "11,173,962".
std::string grouped(std::int64_t number);

/// What runs where: ranks, hosts, devices, binding, network, data; a line each, for people.
std::string describe_place(const Job& job, comm::Communicator& communicator);

/// "shared: 4.19 MB in 1.1 ms (pieces 3.2 ms, ring 3.4 ms)", or "none".
std::string describe_all_reduce(const train::Trainer& trainer);

/// What was chosen at the start, by timing: how gradients are summed, how often each kernel of the
/// convolutions was taken; a line each.
std::string describe_choices(const train::Trainer& trainer);

struct RunSize {
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
};

/// Batches, optimiser and communication of a training run; one line each. `bucket_bytes`: as
/// communicated, empty if nothing is.
std::string describe_training(const Job& job, const RunSize& size,
                              std::span<const std::size_t> bucket_bytes);

/// Memory by purpose, a line each.
std::string describe_memory(const train::MemoryEstimate& memory, std::uint64_t limit);

}  // namespace lockstep::app
