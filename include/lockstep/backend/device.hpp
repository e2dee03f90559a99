// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "lockstep/core/named_value.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/core/replica.hpp"

namespace lockstep::backend {

enum class DeviceKind {
  automatic,  ///< cuda if a usable GPU is present, otherwise cpu
  reference,
  cpu,
  cuda
};
std::span<const core::NamedValue<DeviceKind>> named_values(DeviceKind);

/// Selection of the kernels that cuDNN (as engines) and this program have for an operation on a
/// GPU.
enum class EngineSelection {
  timed,  ///< the fastest by measurement, including engines that are compiled at run time
  /// The first precompiled engine in the order of cuDNN's heuristics, tensor cores first, and batch
  /// norm by the kernels of this program: nothing is compiled at run time, and nothing is timed.
  quick,
};
std::span<const core::NamedValue<EngineSelection>> named_values(EngineSelection);

/// Identity of a device with its own memory, as other tools report it.
struct DeviceIdentity {
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::uint64_t memory_bytes = 0;
};

/// Readings of the sensors of a device; NaN if the device does not provide a value.
struct SensorReading {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double energy_joules = unknown;  ///< consumed since an unspecified time in the past
  /// Fraction of the last sampling period (up to 1 s) in which a kernel ran, from 0 to 1.
  double utilisation = unknown;
  double memory_bytes = unknown;  ///< in use by all processes
  /// Power of the device: mean over the last second, or the current value (A100 and older GPUs).
  double power_watts = unknown;
};

/// The processor or GPU on which a rank computes: its identity, memory and sensors.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;              ///< model name of the processor or GPU
  virtual std::string library_versions() const = 0;  ///< "oneDNN 2.6.3 (avx2)"

  /// Returns the queue (CUDA stream) in which the device executes its work in order.
  virtual core::DeviceQueue queue() const { return {}; }

  /// Returns the free device memory in bytes, or the total memory of a target GPU
  /// (`DeviceOptions::target_gpu`); nothing if the device uses host memory.
  virtual std::optional<std::uint64_t> available_memory() const { return std::nullopt; }

  /// Returns the identity of the device; nothing for the host processor and for a target GPU.
  virtual std::optional<DeviceIdentity> identity() const { return std::nullopt; }

  /// Returns the properties of the device as JSON, in the format from which its library plans for a
  /// device that is not present (`DeviceOptions::target_gpu`); empty for the host processor. Throws
  /// `Error` if the library does not return them.
  virtual std::string description() const { return {}; }

  /// Reads the sensors of the device. May be called at any time, also while the device executes
  /// work.
  virtual SensorReading read_sensors() const { return {}; }
};

struct DeviceOptions {
  DeviceKind kind = DeviceKind::cpu;
  int threads = 1;     ///< CPU threads of this replica (>= 1)
  int local_rank = 0;  ///< selects the GPU: local_rank modulo the number of GPUs of the host
  bool deterministic = false;  ///< use only kernels that give the same bits in every run
  /// Target GPU of offline planning ("h200"); empty: a GPU of this machine. For a target GPU the
  /// backend can plan, but not run.
  std::string target_gpu{};
  /// Directory in which the engines that were selected by timing are stored for later runs; empty:
  /// they are not stored.
  std::filesystem::path cache_directory{};
  EngineSelection engines = EngineSelection::timed;
  /// Limit on the total time to build and time the engines of a GPU, in seconds; 0: none. When it
  /// is reached, the best engines found so far are used, and not stored.
  double engine_seconds = 0;
  int build_threads = 0;  ///< host threads that build engines; 0: all processors of this process
  int batch_norm_multiprocessors = 0;  ///< of a GPU, for cuDNN's batch norm; 0: all, -1: all but 16
  /// File to which a GPU backend writes the candidates for each operation, as JSON lines
  /// (docs/performance.md); empty: none. `make_backend` throws `Error`: output if the file cannot
  /// be written, usage if the device has no engines.
  std::string engine_log{};
  /// Must outlive the backend and its plans; may be null.
  core::ProgressMonitor* progress = nullptr;
};

/// Returns the device kind that `automatic` selects on this machine; returns any other kind
/// unchanged.
DeviceKind resolve(DeviceKind kind);

}  // namespace lockstep::backend
