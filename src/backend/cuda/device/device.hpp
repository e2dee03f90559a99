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

/// What the program says about a GPU. The last two are empty for a GPU that is only described.
struct DeviceInfo {
  std::string name;            ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 10 * major + minor: 90
  int multiprocessors = 0;
  std::size_t total_memory = 0;  ///< bytes
  std::size_t l2_cache = 0;      ///< bytes
  std::string uuid;              ///< "GPU-01234567-89ab-cdef-0123-456789abcdef"
  std::string pci_bus_id;        ///< "0000:17:00.0"
};

/// The oldest compute capability with machine code in CUDA 13 and cuDNN 9 (Turing). Older ones must
/// be refused by us: cuDNN plans for them without complaint and fails when it runs.
inline constexpr int oldest_compute_capability = 75;

/// GPUs that this process can use; 0 where there is none or no driver.
int device_count();

/// Throws `Error` (usage) where there is no such device, no driver, or it is too old for this
/// build's libraries.
DeviceInfo describe_device(int index);

/// Throws `Error` (usage) below `oldest_compute_capability`.
void check_supported(const DeviceInfo& device);

/// Names of the GPUs that are described here, for planning without them: "a100", "h200", ...
std::vector<std::string> described_devices();

/// JSON of one of them, as cuDNN reads it. Throws `Error` (usage) for another name, with the names.
std::string device_description(std::string_view name);

/// JSON of a GPU that is present: the true description, to be kept for planning elsewhere.
std::string write_device_description(int index);

struct DnnHandleTraits {
  using type = cudnnHandle_t;
  static type null() noexcept { return nullptr; }
  static void close(type handle) noexcept;
};
using DnnHandle = core::Handle<DnnHandleTraits>;

/// What graphs are planned for: a GPU that is present, with the stream on which it will work, or
/// the description of one that is not. Graphs keep a reference to it.
class Target {
 public:
  /// Opens device `index` and makes it the current one. Throws `Error` (usage) as
  /// `describe_device` does.
  static Target device(int index);

  /// For planning only. `json`: from `device_description` or `write_device_description`. Throws
  /// `Error` (usage) for what cuDNN cannot read, and for GPUs that are too old.
  static Target description(std::string_view json);

  const DeviceInfo& info() const { return info_; }
  bool is_present() const { return static_cast<bool>(handle_); }

  int index() const { return index_; }                    ///< -1 where only described
  cudaStream_t stream() const { return stream_.get(); }   ///< null where only described
  cudnnHandle_t handle() const { return handle_.get(); }  ///< null where only described
  /// Null where present.
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
