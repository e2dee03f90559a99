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
};

/// Throws `AgreedError`. Warns where there are more threads than cores. Collective.
Job prepare_job(const Invocation& invocation);

/// Reads or makes the images and makes sure that all ranks have the same. Throws `AgreedError`.
/// Collective.
data::TrainingData load_data(const Job& job, comm::Communicator& communicator);

/// What a rank may take: `--memory-limit`, or what is free: on the device where it has memory of
/// its own, else on the host, shared among its ranks.
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
