// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"

namespace cudnn_frontend {
class DeviceProperties;
}

namespace lockstep::backend::cuda {

/// Properties of a GPU. The last two are empty if the GPU is known from a device description only.
struct DeviceInfo {
  std::string name;            ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 10 * major + minor: 90
  int multiprocessors = 0;
  std::size_t total_memory = 0;  ///< bytes
  std::size_t l2_cache = 0;      ///< bytes
  std::string uuid;              ///< "GPU-01234567-89ab-cdef-0123-456789abcdef"
  std::string pci_bus_id;        ///< "0000:17:00.0"
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

/// Returns the names of the GPUs with a built-in device description for offline planning: "a100",
/// "h200", ...
std::vector<std::string> described_devices();

/// Returns a built-in device description, as JSON in cuDNN's format. Throws `Error` (usage) if
/// there is no GPU of that name; the message lists the known names.
std::string device_description(std::string_view name);

/// Returns the device description of GPU `index`, as JSON in cuDNN's format, for offline planning
/// on other machines.
std::string write_device_description(int index);

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

  /// Creates a target for offline planning. `json`: from `device_description` or
  /// `write_device_description`. Throws `Error` (usage) if cuDNN cannot read `json` or if the GPU
  /// is too old.
  static Target description(std::string_view json);

  /// Returns a target for the same GPU on which graphs can be planned by another thread: it has its
  /// own cuDNN handle and no stream. Makes the GPU the current device of the calling thread. Throws
  /// `Error` if cuDNN cannot create the handle.
  Target sibling() const;

  const DeviceInfo& info() const { return info_; }
  bool is_present() const { return static_cast<bool>(handle_); }

  int index() const { return index_; }                    ///< -1 if no GPU is present
  cudaStream_t stream() const { return stream_.get(); }   ///< null if no GPU is present
  cudnnHandle_t handle() const { return handle_.get(); }  ///< null if no GPU is present
  /// Returns the device description in cuDNN's form; null if the GPU is present.
  const std::shared_ptr<const cudnn_frontend::DeviceProperties>& properties() const {
    return properties_;
  }

 private:
  Target() = default;

  DeviceInfo info_;
  int index_ = -1;
  core::Stream stream_;
  DnnHandle handle_;
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_;
};

}  // namespace lockstep::backend::cuda
