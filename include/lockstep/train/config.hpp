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
  bool is_read_only = false;  ///< creates no directory and no file
  bool trust_directory = false;
  double seconds = 180;  ///< interval; 0 if `steps` sets it
  std::int64_t steps = 0;
  int keep = 3;
  double grace_seconds = 30;  ///< between a signal and the end of the process by the sender
};

/// Options of a training, by subject. `resolve` and `resolve_device` replace automatic values by
/// numbers. The members of `plan` and `device` that are no options are set where a plan or a device
/// is made.
struct Config {
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
  CudaGraph cuda_graph = CudaGraph::on;
  double bucket_mib = 0;  ///< 0: automatic, until `resolve_device`
  BatchNormMode batch_norm = BatchNormMode::broadcast;

  // length; exactly one of the two batch sizes is given, and `resolve` computes the other
  std::int64_t batch_per_rank = 0;
  std::int64_t global_batch = 0;
  std::int64_t epochs = 0;  ///< 0 if `steps` sets the length of the training
  std::int64_t steps = 0;
  std::int64_t evaluate_every = 1;  ///< interval in epochs; 0: once, after the last step; -1: never

  // measurements
  double telemetry_hertz = 10;    ///< samples of counters and sensors per second; 0: none
  bool times_operations = false;  ///< whether extra steps can time each operation

  /// Returns the images of one forward pass: those of a rank and step, divided into micro-batches.
  std::int64_t images_per_micro_batch() const { return batch_per_rank / pipeline.micro_batches; }

  /// Returns the size of a bucket of float32 gradients in bytes. `bucket_mib` must be resolved.
  std::size_t bucket_bytes() const;
};

/// What a command does with the options of a training.
enum class Purpose {
  training,           ///< trains, or describes a training: one batch size and one length
  several_trainings,  ///< sets the batch sizes; the steps take precedence over the epochs
  other,              ///< does not train: no batch size
};

/// Returns `config` with the batch size that was not given, if it is that of a training, and the
/// default number of epochs filled in. Throws `Error` (usage), naming the options, if options
/// contradict each other or the number of ranks. The option table of the module `app` checks the
/// range of each value.
Config resolve(Config config, int ranks, Purpose purpose = Purpose::training);

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
