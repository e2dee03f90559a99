// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string>

#include "job.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/train/run_description.hpp"

namespace lockstep::app {

/// Returns the number with the noun in singular or plural: "1 rank", "2 ranks".
std::string plural(std::int64_t count, std::string_view noun);

/// Returns the number with digit grouping: 11173962 -> "11,173,962".
std::string grouped(std::int64_t number);

/// Describes ranks, hosts, device, binding, MPI, model, data and precision, one line each.
std::string describe_place(const Job& job);

/// Describes device, threads, precision and memory limit, one line each, for commands without a
/// network and images.
std::string describe_device(const Job& job, std::uint64_t limit);

/// Describes the all-reduce algorithm and the times of all candidates: "shared-memory: 4.19 MB
/// in 1.1 ms (direct 3.2 ms, ring 3.4 ms)". Returns the name of the transport if that chooses the
/// algorithm itself, and "none" if nothing is communicated.
std::string describe_all_reduce(const train::RunDescription& run);

/// Describes what was chosen at the start of the run, one line each: the all-reduce algorithm, and
/// the number of convolution kernels per implementation.
std::string describe_choices(const train::RunDescription& run);

/// Describes batches, optimiser, communication and output files of a training run, one line each.
/// `bucket_sizes`: sizes as communicated; empty if nothing is.
std::string describe_training(const Job& job, std::int64_t steps_per_epoch,
                              std::int64_t total_steps, std::span<const std::size_t> bucket_sizes);

/// Returns lines that describe the pipeline and its stages; empty if `stages` is.
std::string describe_pipeline(const train::Config& config,
                              const std::vector<train::StageDescription>& stages);

/// Describes the estimated memory by purpose, one line each, and the limit.
std::string describe_memory(const study::MemoryEstimate& memory, const study::MemoryLimit& limit);

}  // namespace lockstep::app
