// SPDX-License-Identifier: BSD-3-Clause
#include "device.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>
#include <filesystem>
#include <ranges>
#include <system_error>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/trust.hpp"

namespace lockstep::backend::cuda {
namespace {

std::string format_uuid(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

DeviceInfo read_info(std::string_view json) {
  const auto fields = nlohmann::json::parse(json);
  DeviceInfo info;
  info.name = fields.at("deviceName").get<std::string>();
  info.compute_capability = fields.at("deviceVer").get<int>() / 10;
  info.multiprocessors = fields.at("multiProcessorCount").get<int>();
  info.total_memory = fields.at("totalGlobalMem").get<std::size_t>();
  info.l2_cache = fields.at("l2CacheSize").get<std::size_t>();
  return info;
}

DnnHandle make_handle() {
  cudnnHandle_t handle = nullptr;
  check_cudnn(cudnnCreate(&handle), "opening cuDNN");
  return DnnHandle(handle);
}

constexpr const char* library_name = "libcuda.so.1";  // name of the driver for CUDA and cuDNN

std::vector<std::filesystem::path> candidates() {
  if (const char* named = std::getenv("LOCKSTEP_PLANNING_DRIVER")) return {named};
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
    paths.push_back(program.parent_path().parent_path() / "lib" / "lockstep" / library_name);
  if (const std::string built = LOCKSTEP_PLANNING_DRIVER_IN_BUILD; !built.empty())
    paths.emplace_back(built);
  return paths;
}

/// Returns why a library must not be loaded; empty if it can be. The owner of this program is
/// trusted as well, because an administrator of the installation owns both.
std::string distrust_library(const std::filesystem::path& library) {
  struct stat program {};
  if (::stat("/proc/self/exe", &program) != 0) program.st_uid = ::geteuid();
  const std::string folder = core::distrust(library.parent_path(), program.st_uid);
  return folder.empty() ? core::distrust(library, program.st_uid)
                        : fmt::format("of its directory: {}", folder);
}

}  // namespace

void check_cudnn(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> reason{};
  cudnnGetLastErrorString(reason.data(), reason.size());
  const std::string text(reason.data());
  const bool memory_is_full = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                              status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  core::fail(memory_is_full ? core::ExitStatus::out_of_memory : core::ExitStatus::internal,
             fmt::format("{} failed: {}{}{}", what, cudnnGetErrorString(status),
                         text.empty() ? "" : ": ", text.substr(0, text.find('\n'))));
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

DeviceInfo describe_device(int index) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), fmt::format("asking for GPU {}", index));
  std::array<char, 32> bus{};
  check_cuda(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index),
             fmt::format("asking for the PCI bus of GPU {}", index));
  DeviceInfo info;
  info.name = properties.name;
  info.compute_capability = 10 * properties.major + properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.total_memory = properties.totalGlobalMem;
  info.l2_cache = static_cast<std::size_t>(properties.l2CacheSize);
  info.uuid = format_uuid(properties.uuid);
  info.pci_bus_id = bus.data();
  return info;
}

void check_supported(const DeviceInfo& device) {
  if (device.compute_capability >= oldest_compute_capability) return;
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{} has compute capability {}, and CUDA 13 and cuDNN 9 have no machine code for "
                  "it; use a GPU of 7.5 (Turing) or newer, or --device cpu",
                  device.name, device.capability()));
}

bool open_planning_driver() {
  // The dynamic loader identifies loaded libraries by SONAME: later requests for libcuda.so.1
  // return the library that is already loaded. The stub stays open until the process exits, as the
  // driver does.
  if (void* loaded = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD))
    return dlsym(loaded, "lockstep_planning_driver") != nullptr;
  std::string tried;
  for (const auto& path : candidates()) {
    if (const std::string reason = distrust_library(path); !reason.empty()) {
      tried += fmt::format("; {} is not used, because {}", path.string(), reason);
      continue;
    }
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
    tried += fmt::format("; {}", dlerror());
  }
  core::fail(core::ExitStatus::usage,
             fmt::format("planning for a target GPU requires Lockstep's stub of the CUDA "
                         "driver, which was not found{}; install it, or set its path in "
                         "LOCKSTEP_PLANNING_DRIVER",
                         tried));
}

void DnnHandleTraits::close(type handle) noexcept {
  if (cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS) core::warn_of_cleanup("closing cuDNN failed");
}

Target Target::device(int index) {
  Target target;
  target.info_ = describe_device(index);
  check_supported(target.info_);
  target.index_ = index;
  check_cuda(cudaSetDevice(index), fmt::format("opening GPU {}", index));
  // Between the all-reduces, which use few multiprocessors, and the work of side streams.
  target.stream_ = core::make_stream(core::StreamPriority::middle);
  target.handle_ = make_handle();
  check_cudnn(cudnnSetStream(target.handle(), target.stream()), "giving cuDNN its stream");
  return target;
}

Target Target::sibling() const {
  Target target;
  target.info_ = info_;
  target.index_ = index_;
  target.description_ = description_;
  make_current();
  if (is_present()) target.handle_ = make_handle();
  return target;
}

void Target::make_current() const {
  if (is_present()) check_cuda(cudaSetDevice(index_), fmt::format("opening GPU {}", index_));
}

Target Target::description(std::string_view name) {
  const auto devices = described_devices();
  const auto found = std::ranges::find(devices, name, &DescribedDevice::name);
  if (found == devices.end())
    core::fail(
        core::ExitStatus::usage,
        fmt::format("there is no description of a GPU '{}'; the values are {}", name,
                    fmt::join(devices | std::views::transform(&DescribedDevice::name), ", ")));
  Target target;
  target.info_ = read_info(found->json);
  target.description_ = found->json;
  return target;
}

}  // namespace lockstep::backend::cuda
