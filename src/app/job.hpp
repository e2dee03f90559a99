#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/memory.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::app {

/// What commands prepare alike before they begin: everything but the images.
struct Job {
  train::Config config;                 ///< resolved
  std::vector<record::RankInfo> ranks;  ///< of all ranks, on every rank
  data::DataSizes sizes;
  graph::Graph graph;
  std::unique_ptr<backend::Backend> backend;
  std::uint64_t process_bytes = 0;  ///< resident before anything was loaded
  /// Conditions found so far that make measured times wrong or not comparable; equal on all ranks.
  std::vector<std::string> warnings;
  core::ProgressMonitor* progress = nullptr;  ///< informed of what the rank does; may be null
};

/// Throws `AgreedError`. Warns where there are more threads than cores. Collective.
Job prepare_job(const Invocation& invocation);

/// Reads or makes the images and makes sure that all ranks have the same. Throws `AgreedError`.
/// Collective.
data::TrainingData load_data(const Job& job, comm::Communicator& communicator);

/// Returns the bytes that each rank may take, the smallest over the ranks: `--memory-limit`, or the
/// free memory of the device if it has its own, or else the rank's share of the free memory of the
/// host. Throws `AgreedError`. Collective.
std::uint64_t memory_limit(const Job& job, comm::Communicator& communicator);

/// What a rank of this job will take. Throws `AgreedError` (usage) where the device cannot do what
/// is asked. Collective.
train::MemoryEstimate estimate_memory(const Job& job, comm::Communicator& communicator);

/// Header of the run file of this job.
record::RunHeader run_header(const Job& job, const Invocation& invocation,
                             std::span<const std::size_t> bucket_bytes);

/// Throws `AgreedError` (output) where the run file that `--output` names could not be written.
/// Collective.
void check_output(const train::Config& config, comm::Communicator& communicator);

}  // namespace lockstep::app
