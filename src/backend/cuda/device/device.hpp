// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

/// Throws `Error` if `status` is not success: out_of_memory if cuDNN failed to allocate host or
/// device memory, otherwise internal. `what`: the call that failed.
void check_cudnn(cudnnStatus_t status, std::string_view what);

/// Returns `bytes` rounded up to a multiple of 256. Blocks that share one device allocation begin
/// at such multiples, which satisfies the alignment requirements of all kernels.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Properties of a GPU. The last two are empty if the GPU is known from a device description only.
struct DeviceInfo {
  std::string name;            ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 10 * major + minor: 90
  int multiprocessors = 0;
  std::size_t total_memory = 0;  ///< bytes
  std::size_t l2_cache = 0;      ///< bytes
  std::string uuid;              ///< "GPU-01234567-89ab-cdef-0123-456789abcdef"
  std::string pci_bus_id;        ///< "0000:17:00.0"

  std::string capability() const {  ///< "9.0"
    return std::to_string(compute_capability / 10) + '.' + std::to_string(compute_capability % 10);
  }
};

/// The oldest compute capability for which CUDA 13 and cuDNN 9 contain machine code (Turing). The
/// program must reject older GPUs itself, because cuDNN plans graphs for them and fails only when
/// they are executed.
inline constexpr int oldest_compute_capability = 75;

/// Returns the number of GPUs that this process can use; 0 if there is no GPU or no driver.
int device_count();

/// Returns the properties of device `index`. Throws `Error` (usage) if there is no such device or
/// no driver, or if the driver is too old for the libraries of this build.
DeviceInfo describe_device(int index);

/// Throws `Error` (usage) if the compute capability is below `oldest_compute_capability`.
void check_supported(const DeviceInfo& device);

/// A device description from the folder descriptions/, built into the program.
struct DescribedDevice {
  std::string_view name;  ///< file name without extension: "h200"
  std::string_view json;  ///< in cuDNN's format
};
std::span<const DescribedDevice> described_devices();

/// Prepares offline planning (`Target::description`): loads a stub of the CUDA driver library, the
/// only component that cuDNN lacks on a machine without a GPU; this process then sees no GPU. Must
/// be called before any CUDA or cuDNN function. The stub is ../lib/lockstep/libcuda.so.1 relative
/// to the program's folder, or the one in the build folder; the environment variable
/// LOCKSTEP_PLANNING_DRIVER overrides both. Returns false if a CUDA driver was already loaded;
/// cuDNN may then reject runtime-compiled engines. Throws `Error` (usage) if the stub cannot be
/// loaded.
bool open_planning_driver();

struct DnnHandleTraits {
  using type = cudnnHandle_t;
  static type null() noexcept { return nullptr; }
  static void close(type handle) noexcept;
};
using DnnHandle = core::Handle<DnnHandleTraits>;

/// The GPU for which graphs are planned: either a GPU that is present, with the stream on which it
/// works, or a device description (offline planning). Graphs keep a reference to their target.
class Target {
 public:
  /// Opens GPU `index` and makes it the current device. Throws `Error` (usage) as `describe_device`
  /// and `check_supported` do.
  static Target device(int index);

  /// Creates a target for offline planning. `name`: of one of the `described_devices`. Throws
  /// `Error` (usage) if there is no GPU of that name; the message lists the known names.
  static Target description(std::string_view name);

  /// Returns a target for the same GPU on which graphs can be planned by another thread: it has its
  /// own cuDNN handle and no stream. Makes the GPU the current device of the calling thread. Throws
  /// `Error` if cuDNN cannot create the handle.
  Target sibling() const;

  /// Makes the GPU the current device of the calling thread, if it is present.
  void make_current() const;

  const DeviceInfo& info() const { return info_; }
  bool is_present() const { return static_cast<bool>(handle_); }

  int index() const { return index_; }                    ///< -1 if no GPU is present
  cudaStream_t stream() const { return stream_.get(); }   ///< null if no GPU is present
  cudnnHandle_t handle() const { return handle_.get(); }  ///< null if no GPU is present
  /// Returns the device description in cuDNN's format; empty if the GPU is present.
  std::string_view description() const { return description_; }

 private:
  Target() = default;

  DeviceInfo info_;
  int index_ = -1;
  core::Stream stream_;
  DnnHandle handle_;
  std::string_view description_;
};

}  // namespace lockstep::backend::cuda
