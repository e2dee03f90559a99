#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/named_value.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/data/sampler.hpp"
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

/// Memory in which the training images are stored if a GPU trains.
enum class DataResidency {
  host,    ///< host memory: batches are prepared there and copied to the device
  device,  ///< device memory: all images are copied once, and batches are prepared there
};
std::span<const core::NamedValue<DataResidency>> named_values(DataResidency);

/// Order of the forward and backward passes of the micro-batches in a pipeline. With both schedules
/// a pipeline of N equal stages and M micro-batches is idle for (N - 1) / (M + N - 1) of the time.
enum class PipelineSchedule {
  gpipe,  ///< all forward passes, then all backward passes (Huang et al., 2019): M micro-batches
          ///< are in flight
  one_forward_one_backward,  ///< each stage alternates as soon as it can (PipeDream-Flush,
                             ///< Narayanan et al., 2021): at most N micro-batches are in flight
};
std::span<const core::NamedValue<PipelineSchedule>> named_values(PipelineSchedule);

/// Values of all options. The command line sets them, `resolve` replaces automatic values by
/// numbers, and the run file stores them.
struct Config {
  std::string command = "train";

  // network
  std::string model = "resnet18-cifar";
  std::int64_t classes = 0;  ///< 0: the number of classes of the dataset
  double label_smoothing = 0;
  bool swap_relu_pool = false;  ///< compute max-pool before ReLU
  std::string init_from;        ///< file with initial weights; empty: random initialisation

  // data
  std::string data = "synthetic";
  std::int64_t train_samples = 0;  ///< number of images, from the start of the training set; 0: all
  std::int64_t test_samples = 0;   ///< the same for the test set
  data::Augmentation augment = data::Augmentation::crop_flip;
  data::LastBatch last_batch = data::LastBatch::drop;
  int loader_threads = 2;
  DataResidency data_residency = DataResidency::host;
  std::uint64_t seed = 1;

  // device of each rank
  backend::DeviceKind device = backend::DeviceKind::automatic;
  core::Precision precision = core::Precision::fp32;
  double loss_scale = 0;  ///< for fp16; 0: dynamic loss scaling
  int threads = 0;  ///< CPU threads per rank; 0: the cores divided among the ranks that share them
  Binding binding = Binding::automatic;
  backend::ConvolutionAlgorithm convolution_algorithm = backend::ConvolutionAlgorithm::automatic;
  backend::BatchNormFusion batch_norm_fusion = backend::BatchNormFusion::automatic;
  backend::EngineSelection engines = backend::EngineSelection::timed;
  CudaGraph cuda_graph = CudaGraph::on;
  /// Of a GPU, for cuDNN's batch norm; 0: all, -1: see `multiprocessors_of_batch_norm`.
  std::int64_t batch_norm_multiprocessors = -1;
  std::string engine_log;  ///< file for the candidates of each kernel selection; empty: none
  std::uint64_t memory_limit = 0;  ///< bytes per rank; 0: the available memory
  bool deterministic = false;

  // training; exactly one of the two batch sizes is given, and `resolve` computes the other
  std::int64_t batch_per_rank = 0;
  std::int64_t global_batch = 0;
  std::int64_t epochs = 0;  ///< 0 if `steps` sets the length of the training
  std::int64_t steps = 0;
  std::int64_t evaluate_every = 1;  ///< interval in epochs; 0: once, after the last step; -1: never

  // optimiser
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  bool nesterov = false;
  optim::ScheduleKind schedule = optim::ScheduleKind::constant;
  double warmup_epochs = 0;
  optim::Scaling scaling = optim::Scaling::none;
  std::int64_t reference_batch = 128;
  double max_gradient_norm = 0;  ///< global norm to which gradients are clipped; 0: no clipping

  // communication
  comm::ReducerKind reducer = comm::ReducerKind::overlap;
  comm::AllReduceAlgorithm all_reduce = comm::AllReduceAlgorithm::automatic;
  comm::TransportKind transport = comm::TransportKind::automatic;
  bool allow_gpu_sharing = false;
  double bucket_mib = 0;  ///< 0: `default_bucket_mib` of the device
  core::DataType gradient_type = core::DataType::float32;
  double link_gbit = 0;  ///< rate of the network link in Gbit/s, for the report; 0: unknown
  BatchNormMode batch_norm = BatchNormMode::broadcast;
  std::int64_t watchdog_seconds = 300;  ///< 0: disabled

  // pipeline of stages; ranks = stages x replicas
  int pipeline_stages = 1;
  std::string stage_cuts = "auto";  ///< "auto", "flops", or the first layers of stages 1, 2, ...
  std::int64_t micro_batches = 1;   ///< per step and replica
  PipelineSchedule pipeline_schedule = PipelineSchedule::gpipe;

  /// Returns the size of a bucket of float32 gradients in bytes.
  std::size_t bucket_bytes() const;

  // checkpoints
  std::string resume = "none";
  std::string checkpoint_dir;
  bool trust_checkpoint_dir = false;
  double checkpoint_seconds = 180;  ///< interval; 0 if `checkpoint_steps` sets it
  std::int64_t checkpoint_steps = 0;
  int keep = 3;
  double grace_seconds = 30;  ///< between a signal and the end of the process by the sender

  // output
  std::string output;
  bool overwrite = false;
  double telemetry_hertz = 10;     ///< samples of counters and sensors per second; 0: none
  std::int64_t profile_steps = 0;  ///< steps that are profiled after the training; 0: none
  std::string trace;  ///< file for the profiled steps in trace-event format; empty: none
  bool json = false;
  bool quiet = false;
  bool dry_run = false;

  // lockstep plan
  bool measure = false;
  std::string planned_for;  ///< target GPU of offline planning, for example "h200"; empty: the
                            ///< device of this machine

  // lockstep info
  std::string device_description;  ///< file to which the device description of the GPU is written

  // lockstep layers, lockstep stack
  std::string layers;  ///< as for `graph::parse_layers`; empty: the default layers of the command

  // lockstep ladder (epoch time as a function of the batch per rank)
  std::int64_t ladder_start = 32;  ///< first batch per rank

  // lockstep allreduce (benchmark of all-reduce algorithms)
  std::uint64_t min_bytes = 1u << 10;
  std::uint64_t max_bytes = 64u << 20;
  int repeats = 20;

  /// Returns the peak learning rate: `learning_rate` scaled with the global batch according to
  /// `scaling`.
  double peak_learning_rate() const;
};

/// Returns `config` with the batch size that was not given and the default number of epochs filled
/// in. Throws `Error` (usage), naming the options, if options contradict each other or the number
/// of ranks. The option table of the module `app` checks the range of each value.
Config resolve(Config config, int ranks);

/// Returns the default of `Config::bucket_mib`. On GPUs it is larger: fewer all-reduces disturb
/// fewer layers (not measured on a GPU).
double default_bucket_mib(backend::DeviceKind device);

/// Returns `DeviceOptions::batch_norm_multiprocessors`. By default cuDNN's batch norm leaves
/// multiprocessors to all-reduces that overlap with it.
int multiprocessors_of_batch_norm(const Config& config, int ranks);

/// Throws `Error` (input) if the training set is smaller than the global batch.
void require_enough_images(const Config& config, std::size_t training_images);

}  // namespace lockstep::train
