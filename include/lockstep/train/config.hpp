#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/optim/learning_rate.hpp"

namespace lockstep::train {

/// Which running statistics of batch norm the replicas evaluate with.
enum class BatchNormMode {
  local,      ///< each rank its own
  broadcast,  ///< rank 0's, as PyTorch's DistributedDataParallel
  sync,       ///< batch statistics over all ranks, so they are equal everywhere
};

/// Where the training images are while a GPU trains.
enum class DataResidency {
  host,    ///< prepared there, copied batch by batch
  device,  ///< all of them on the device, prepared there
};

/// Every option, as given and then resolved. Plain data: the command line fills it, `resolve` puts
/// numbers where there was "choose for me", the run file keeps it.
struct Config {
  std::string command = "train";

  // the network
  std::string model = "resnet18-cifar";
  std::int64_t classes = 0;  ///< 0: as many as the data have
  double label_smoothing = 0;
  std::string init_from;  ///< a file with weights to start from; empty: random

  // the data
  std::string data = "synthetic";
  std::int64_t train_samples = 0;  ///< the first so many; 0: all
  std::int64_t test_samples = 0;
  data::Augmentation augment = data::Augmentation::crop_flip;
  data::LastBatch last_batch = data::LastBatch::drop;
  int loader_threads = 2;
  DataResidency data_residency = DataResidency::host;
  std::uint64_t seed = 1;

  // the device of each rank
  backend::DeviceKind device = backend::DeviceKind::automatic;
  core::Precision precision = core::Precision::fp32;
  double loss_scale = 0;  ///< of fp16; 0: found while training
  int threads = 0;        ///< CPU threads per rank; 0: the cores shared out among the ranks
  backend::ConvolutionAlgorithm convolution_algorithm = backend::ConvolutionAlgorithm::automatic;
  backend::BatchNormFusion batch_norm_fusion = backend::BatchNormFusion::automatic;
  std::uint64_t memory_limit = 0;  ///< bytes per rank; 0: what is available
  bool deterministic = false;

  // the run; exactly one of the two batches is given, `resolve` sets the other
  std::int64_t batch_per_rank = 0;
  std::int64_t global_batch = 0;
  std::int64_t epochs = 0;  ///< 0 where `steps` rules
  std::int64_t steps = 0;
  std::int64_t evaluate_every = 1;  ///< epochs; 0: once, after the last step; -1: never

  // the optimiser
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  bool nesterov = false;
  optim::ScheduleKind schedule = optim::ScheduleKind::constant;
  double warmup_epochs = 0;
  optim::Scaling scaling = optim::Scaling::none;
  std::int64_t reference_batch = 128;

  // communication
  comm::ReducerKind reducer = comm::ReducerKind::overlap;
  comm::AllReduceWay all_reduce = comm::AllReduceWay::automatic;
  comm::TransportKind transport = comm::TransportKind::automatic;
  bool allow_gpu_sharing = false;
  double bucket_mib = 6;
  core::DataType gradient_type = core::DataType::float32;
  double link_gbit = 0;  ///< the link's rate, for the report; 0: not known
  BatchNormMode batch_norm = BatchNormMode::broadcast;
  static constexpr std::int64_t most_watchdog_seconds = 1'000'000'000;  ///< about 32 years
  std::int64_t watchdog_seconds = 300;                                  ///< 0: off

  /// Bytes of a bucket of float32 gradients.
  std::size_t bucket_bytes() const { return static_cast<std::size_t>(bucket_mib * (1 << 20)); }

  // checkpoints
  std::string resume = "none";
  std::string checkpoint_dir;
  double checkpoint_seconds = 180;  ///< 0 where `checkpoint_steps` rules
  std::int64_t checkpoint_steps = 0;
  int keep = 3;

  // what is left behind and shown
  std::string output;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;
  bool dry_run = false;

  // lockstep plan
  bool measure = false;
  std::string planned_for;  ///< a GPU that is not here

  // lockstep info
  std::string device_description;  ///< file to write the GPU's description to

  // lockstep ladder
  std::int64_t ladder_start = 32;

  // lockstep allreduce
  std::uint64_t min_bytes = 1u << 10;
  std::uint64_t max_bytes = 64u << 20;
  int repeats = 20;

  /// The learning rate after scaling with the global batch.
  double peak_learning_rate() const;
};

/// Fills in what depends on the number of ranks: both batches and the default number of epochs.
/// Throws `Error` (usage) where options contradict each other or the number of ranks, naming them.
Config resolve(Config config, int ranks);

/// Throws `Error` (input) where the training set is smaller than the global batch.
void require_enough_images(const Config& config, std::size_t training_images);

using Entries = std::vector<std::pair<std::string, std::string>>;

/// Every option by its name without dashes in front, and its value as the command line would give
/// it.
Entries entries(const Config& config);

/// The entries that must be equal on all ranks: not paths, which may be local to a host, nor what
/// is shown.
Entries shared_entries(const Config& config);

}  // namespace lockstep::train
