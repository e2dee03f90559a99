// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// The data of a run that a run file stores.
namespace lockstep::record {

using Attributes = std::vector<std::pair<std::string, std::string>>;

/// Phases of a training step, in order. On each rank, the duration of a step is the sum of its
/// phases. Training time is the sum without `data_wait`: it includes copies, gradients and the
/// update, but no data I/O.
enum class Phase { data_wait, upload, forward, backward, exposed_communication, update };
inline constexpr std::size_t phase_count = 6;
inline constexpr std::array<std::string_view, phase_count> phase_names{
    "data_wait", "upload", "forward", "backward", "exposed_communication", "update"};

using PhaseSeconds = std::array<double, phase_count>;

/// Description of one rank; one row of /ranks.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;  ///< rank among the ranks of its host
  std::string hostname;
  std::string cpu_list;            ///< processors that the rank may use: "0-3,8"
  std::string core_list;           ///< physical cores of these (`core::core_of`), as a list
  std::string device_name;         ///< processor or GPU model
  std::string device_uuid;         ///< empty on CPUs
  std::string pci_bus_id;          ///< empty on CPUs
  std::uint64_t memory_bytes = 0;  ///< memory of the device; of the host on CPUs
  int host = 0;  ///< index of the rank's host, from 0; several hosts may have the same name

  /// All members, for messages between ranks.
  static auto fields(auto& self) {
    return std::tie(self.rank, self.local_rank, self.hostname, self.cpu_list, self.core_list,
                    self.device_name, self.device_uuid, self.pci_bus_id, self.memory_bytes,
                    self.host);
  }
};

/// Data that are known when a run starts.
struct RunHeader {
  std::string command_line;
  Attributes config;       ///< resolved value of every option, by its name without leading dashes
  Attributes environment;  ///< versions, build, environment variables on the allow-list
  std::vector<RankInfo> ranks;
  /// (bucket), bytes that each rank contributes, as communicated; empty without all-reduce.
  std::vector<std::uint64_t> bucket_sizes;

  std::string run_id;           ///< the same in all parts of a run; empty to create a new one
  std::int64_t part = 1;        ///< 1 for a new run; 2, 3, ... for the parts that resume it
  std::int64_t first_step = 0;  ///< steps of the run completed before the first step of this file
  std::int64_t steps_per_epoch = 0;  ///< steps of a complete epoch; 0 if the command does not train
  /// Images of a complete epoch, over all ranks; 0 if the command does not train.
  std::int64_t images_per_epoch = 0;
  /// (rank, interface), names of the network interfaces, empty at the end of the row of a rank that
  /// has fewer than others; nothing if the run has no telemetry.
  std::optional<std::vector<std::string>> telemetry_interfaces = std::nullopt;
};

/// Names of the measurements of the clocks of all ranks in an epoch: before its first and after its
/// last step.
inline constexpr std::array<std::string_view, 2> clock_reading_names{"begin", "end"};

/// Quantities of a telemetry sample. The schema of the run file defines them.
enum class TelemetryQuantity {
  seconds,
  user_cpu_seconds,
  system_cpu_seconds,
  resident_memory_bytes,
  voluntary_context_switches,
  involuntary_context_switches,
  device_utilisation,
  device_memory_bytes,
  device_power_watts,
  device_energy_joules,
  host_energy_joules,
  sampler_cpu_seconds,
};

/// Datasets of the quantities, in the order of `TelemetryQuantity`.
inline constexpr std::array<std::string_view, 12> telemetry_paths{
    "/telemetry/seconds",
    "/telemetry/user_cpu_seconds",
    "/telemetry/system_cpu_seconds",
    "/telemetry/resident_memory_bytes",
    "/telemetry/voluntary_context_switches",
    "/telemetry/involuntary_context_switches",
    "/telemetry/device_utilisation",
    "/telemetry/device_memory_bytes",
    "/telemetry/device_power_watts",
    "/telemetry/device_energy_joules",
    "/telemetry/host_energy_joules",
    "/telemetry/sampler_cpu_seconds"};

/// Number of samples per chunk of the run file. Only whole chunks are appended during the run, so
/// a kill during an append cannot damage samples that were complete before.
inline constexpr std::size_t telemetry_chunk = 64;

/// Telemetry samples of several ranks. Arrays are flat, last index fastest.
struct TelemetrySamples {
  std::vector<std::int64_t> rank;     ///< (sample)
  std::vector<double> values;         ///< (sample, quantity)
  std::vector<double> traffic_bytes;  ///< (sample, interface, 2): received and sent

  std::size_t size() const { return rank.size(); }
};

/// Measurements of the steps of one epoch on all ranks, and results of the epoch. Arrays are flat,
/// last index fastest.
struct EpochRecord {
  std::int64_t epoch = 0;                    ///< epoch, counted from 1
  std::vector<double> learning_rate, loss;   ///< (step); `loss`: mean over the global batch
  std::vector<std::int64_t> images;          ///< (step), total over all ranks
  std::vector<double> phase_seconds;         ///< (step, rank, phase)
  std::vector<double> bucket_start_seconds;  ///< (step, rank, bucket), from the start of the step
  std::vector<double> bucket_end_seconds;    ///< (step, rank, bucket), from the start of the step
  double seconds = 0;             ///< wall-clock time of the epoch's steps, without evaluation
  double evaluation_seconds = 0;  ///< wall-clock time of the evaluation
  /// Means over the augmented images of the epoch, with the parameters of the step that used them.
  double train_loss = 0, train_accuracy = 0;
  /// NaN if the epoch was not evaluated.
  double test_loss = std::numeric_limits<double>::quiet_NaN();
  double test_accuracy = std::numeric_limits<double>::quiet_NaN();
  /// Hash of the parameters, equal on all ranks; empty for independent replicas.
  std::string parameter_hash;
  /// Further measurements: values of float64 datasets of /steps and /epochs by path, for example
  /// "/epochs/energy_joules". Optional datasets without an entry are NaN in the file.
  std::map<std::string, std::vector<double>> measurements;
  /// Samples of all ranks since the previous epoch; empty if the run has no telemetry.
  TelemetrySamples telemetry;
};

/// One row of an all-reduce sweep.
struct AllReduceRow {
  std::string algorithm;    ///< all-reduce algorithm: "mpi", "direct", ...
  std::uint64_t bytes = 0;  ///< bytes that each rank contributes, as communicated
  /// (repeat), maximum over ranks. All rows must have the same number of repeats.
  std::vector<double> seconds;
  std::uint64_t wrong = 0;  ///< elements with a wrong sum
};

/// One layer of `lockstep layers`. Values that were not measured are NaN, seconds then empty.
struct LayerRow {
  std::string layer;   ///< as in the option --layer
  std::string status;  ///< "complete" or "out_of_memory"
  std::int64_t batch = 0;
  double forward_flops = 0, backward_flops = 0;  ///< of one pass over the batch
  double forward_bytes = 0, backward_bytes = 0;  ///< memory traffic of one pass over the batch
  /// (repeat). All measured rows must have the same number of repeats.
  std::vector<double> forward_seconds, backward_seconds;
  std::uint64_t estimated_bytes = 0;  ///< of a network that contains only this layer
  std::uint64_t peak_bytes = 0;       ///< measured; 0 if the layer was not measured
  double flops_per_second = 0;        ///< measured rate of a matrix product; 0: not measured
  double bytes_per_second = 0;        ///< measured rate of a copy; 0: not measured
  double power_watts = 0;             ///< mean over the measured steps; NaN if not readable
  double energy_joules = 0;           ///< of a forward and a backward pass; NaN if not readable
};

/// One depth of `lockstep stack`.
struct StackRow {
  std::string layer;                    ///< as in the option --layer
  std::string status;                   ///< "complete" or "out_of_memory"
  std::int64_t stages = 1;              ///< devices over which the stack is divided, one per rank
  std::int64_t depth = 0;               ///< number of layers
  std::int64_t estimated_depth = 0;     ///< number of layers that fit by the estimate
  std::uint64_t limit_bytes = 0;        ///< memory limit of each device
  std::uint64_t estimated_bytes = 0;    ///< of the device that needs most
  std::uint64_t peak_bytes = 0;         ///< of the device that needs most; 0 if it was not run
  std::vector<double> forward_seconds;  ///< (repeat); empty if not measured
};

/// One operation of the network in one phase of a training step, or another part of the step; one
/// row of /profile. All quantities are those of one step, means over the profiled steps.
struct ProfiledOperation {
  std::string name;            ///< name of the operation: "layer1.0.conv1"; that of another part
  std::string what;            ///< kind and shapes: "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string phase;           ///< "forward", "backward data", ..., "update"
  std::string implementation;  ///< empty if there is no choice
  std::string ceiling;         ///< "compute", "memory", "cache" or "none"; docs/run-file.md
  double calls = 0;
  double flops = 0;             ///< of the selected algorithm
  double bytes = 0;             ///< each feature map and weight once per pass over it
  double bound_seconds = 0;     ///< lower bound of the time on rank 0 (roofline model)
  std::vector<double> seconds;  ///< (rank); NaN on ranks that do not execute the operation
};

/// Profile of some training steps.
struct Profile {
  std::int64_t steps = 0;   ///< number of profiled steps
  double step_seconds = 0;  ///< of a profiled step; median over steps, maximum over ranks
  double step_seconds_without_profile = 0;  ///< of steps without profile, in turn with the others
  double flops_per_second = 0;              ///< ceilings of the roofline model; 0: unknown
  double bytes_per_second = 0;
  std::string ceiling_source;                 ///< how they are known
  std::vector<ProfiledOperation> operations;  ///< in the order of their execution
};

/// One point of the batch ladder. Times are NaN if the point was not measured.
struct LadderRow {
  std::int64_t batch_per_rank = 0;
  std::string status;           ///< "complete" or "out_of_memory"
  double epoch_seconds = 0;     ///< time of an epoch on the rank that takes longest
  double training_seconds = 0;  ///< time of an epoch without the phase `data_wait`
  double images_per_second = 0;
  std::uint64_t predicted_bytes = 0;  ///< estimated memory
  std::uint64_t peak_bytes = 0;       ///< maximum memory used
  std::int64_t steps = 0;             ///< number of timed steps
  bool is_extrapolated = false;       ///< times are extrapolated from fewer steps than an epoch has
};

}  // namespace lockstep::record
