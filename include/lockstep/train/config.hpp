// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/named_value.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/optim/learning_rate.hpp"

namespace lockstep::train {

/// Batch-norm statistics of the replicas.
enum class BatchNormMode {
  local,      ///< each rank evaluates with its own running statistics
  broadcast,  ///< all ranks evaluate with the running statistics of rank 0, as with PyTorch's
              ///< DistributedDataParallel
  sync,       ///< synchronised batch norm: batch statistics over all ranks, so that the running
              ///< statistics are equal on all ranks
};
std::span<const core::NamedValue<BatchNormMode>> named_values(BatchNormMode);

/// Processors on which the ranks of a host compute.
enum class Binding {
  automatic,  ///< ranks to which the launcher has given the same processors are bound to parts
  none,       ///< the ranks keep the processors that the launcher has given them
};
std::span<const core::NamedValue<Binding>> named_values(Binding);

/// How a GPU executes the training steps.
enum class CudaGraph {
  on,   ///< captures a step as a CUDA graph and replays it
  off,  ///< the host starts each kernel of each step
};
std::span<const core::NamedValue<CudaGraph>> named_values(CudaGraph);

/// Order of the forward and backward passes of the micro-batches in a pipeline. With both schedules
/// a pipeline of N equal stages and M micro-batches is idle for (N - 1) / (M + N - 1) of the time.
enum class PipelineSchedule {
  gpipe,  ///< all forward passes, then all backward passes (Huang et al., 2019): M micro-batches
          ///< are in flight
  one_forward_one_backward,  ///< each stage alternates as soon as it can (PipeDream-Flush,
                             ///< Narayanan et al., 2021): at most N micro-batches are in flight
};
std::span<const core::NamedValue<PipelineSchedule>> named_values(PipelineSchedule);

/// Options of the pipeline of stages; ranks = stages x replicas.
struct PipelineOptions {
  int stages = 1;
  std::string cuts = "auto";       ///< "auto", "flops", or the first layers of stages 1, 2, ...
  std::int64_t micro_batches = 1;  ///< per step and replica
  PipelineSchedule schedule = PipelineSchedule::gpipe;
};

/// Options of checkpoints.
struct CheckpointOptions {
  std::string resume = "none";
  std::string directory;
  bool trust_directory = false;
  double seconds = 180;  ///< interval; 0 if `steps` sets it
  std::int64_t steps = 0;
  int keep = 3;
  double grace_seconds = 30;  ///< between a signal and the end of the process by the sender
};

/// Values of all options, by subject. The command line sets them, `resolve` replaces automatic
/// values by numbers, and the run file stores them. The members of `plan` and `device` that are no
/// options are set where a plan or a device is made.
struct Config {
  std::string command = "train";

  graph::NetworkOptions network;
  data::DataOptions data;
  optim::Options optimiser;
  comm::ReducerOptions reducer;
  comm::TransportOptions transport;
  /// `threads` 0: the cores divided among the ranks that share them. `batch_norm_multiprocessors`
  /// below 0: all, unless all-reduces overlap with batch norm.
  backend::DeviceOptions device{
      .kind = backend::DeviceKind::automatic, .threads = 0, .batch_norm_multiprocessors = -1};
  backend::PlanOptions plan;
  PipelineOptions pipeline;
  CheckpointOptions checkpoint;

  std::uint64_t seed = 1;
  std::string init_from;  ///< file with initial weights; empty: random initialisation
  Binding binding = Binding::automatic;
  CudaGraph cuda_graph = CudaGraph::on;
  std::uint64_t memory_limit = 0;  ///< bytes per rank; 0: the available memory
  double bucket_mib = 0;           ///< 0: automatic, until `resolve_device`
  double link_gbit = 0;  ///< rate of the network link in Gbit/s, for the report; 0: unknown
  BatchNormMode batch_norm = BatchNormMode::broadcast;
  std::int64_t watchdog_seconds = 300;  ///< 0: disabled

  // length; exactly one of the two batch sizes is given, and `resolve` computes the other
  std::int64_t batch_per_rank = 0;
  std::int64_t global_batch = 0;
  std::int64_t epochs = 0;  ///< 0 if `steps` sets the length of the training
  std::int64_t steps = 0;
  std::int64_t evaluate_every = 1;  ///< interval in epochs; 0: once, after the last step; -1: never

  // output
  std::string output;
  bool overwrite = false;
  double telemetry_hertz = 10;     ///< samples of counters and sensors per second; 0: none
  std::int64_t profile_steps = 0;  ///< steps that are profiled after the training; 0: none
  std::string trace;  ///< file for the profiled steps in trace-event format; empty: none
  bool json = false;
  bool quiet = false;
  bool dry_run = false;

  // commands other than train
  bool measure = false;  ///< plan: measure the operations
  std::string layers;  ///< layers, stack: as for `graph::parse_layers`; empty: their default layers
  std::int64_t ladder_start = 32;      ///< ladder: first batch per rank
  std::uint64_t min_bytes = 1u << 10;  ///< allreduce: sizes of the arrays, and sums of each
  std::uint64_t max_bytes = 64u << 20;
  int step_factor = 4;
  int repeats = 20;

  /// Returns the images of one forward pass: those of a rank and step, divided into micro-batches.
  std::int64_t images_per_micro_batch() const { return batch_per_rank / pipeline.micro_batches; }

  /// Returns the size of a bucket of float32 gradients in bytes. `bucket_mib` must be resolved.
  std::size_t bucket_bytes() const;
};

/// Returns `config` with the batch size that was not given and the default number of epochs filled
/// in. Throws `Error` (usage), naming the options, if options contradict each other or the number
/// of ranks. The option table of the module `app` checks the range of each value.
Config resolve(Config config, int ranks);

/// Returns `config` with the kind of the device of this machine and the default of `bucket_mib` for
/// it filled in.
Config resolve_device(Config config);

/// Tensors of the ranks other than 0 that a checkpoint contains.
enum class RankState : std::int64_t {
  none = 0,        ///< none: every rank has, or will receive, the values of rank 0
  statistics = 1,  ///< the running statistics, which differ (--bn local)
  all = 2,         ///< all tensors: independent replicas (--reducer none)
};
/// Returns which of these tensors a checkpoint of a run with `ranks` ranks contains.
RankState rank_state(const Config& config, int ranks);

/// Throws `Error` (input) if the training set is smaller than the global batch.
void require_enough_images(const Config& config, std::size_t training_images);

}  // namespace lockstep::train
