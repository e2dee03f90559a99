// Creation of backends: the only file of this module that refers to all devices.

#include <fmt/format.h>

#include "cpu/backend.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "reference/backend.hpp"
#ifdef LOCKSTEP_HAS_CUDA
#include "cuda/backend.hpp"
#endif

namespace lockstep::backend {

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::automatic: return "auto";
    case DeviceKind::reference: return "reference";
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::cuda: return "cuda";
  }
  core::check(false, "unknown device");
  return {};
}

std::string_view name(ConvolutionAlgorithm algorithm) {
  switch (algorithm) {
    case ConvolutionAlgorithm::automatic: return "auto";
    case ConvolutionAlgorithm::direct: return "direct";
    case ConvolutionAlgorithm::winograd: return "winograd";
    case ConvolutionAlgorithm::amx: return "amx";
  }
  core::check(false, "unknown algorithm");
  return {};
}

std::string_view name(BatchNormFusion fusion) {
  switch (fusion) {
    case BatchNormFusion::automatic: return "auto";
    case BatchNormFusion::none: return "none";
    case BatchNormFusion::sums: return "sums";
    case BatchNormFusion::prologue: return "prologue";
  }
  core::check(false, "unknown fusion");
  return {};
}

#ifdef LOCKSTEP_HAS_CUDA

namespace {
std::unique_ptr<Backend> make_cuda(const DeviceOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}
bool has_gpu() { return cuda::device_count() > 0; }
}  // namespace

#else

namespace {
std::unique_ptr<Backend> make_cuda(const DeviceOptions& options) {
  const std::string build =
      "this build of Lockstep has no CUDA backend; install the toolkit with jobs/setup --cuda and "
      "build with cmake --preset cuda";
  if (!options.target_gpu.empty()) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--for {} needs cuDNN, which plans without a GPU: {}",
                           options.target_gpu, build));
  }
  core::fail(core::ExitStatus::usage,
             fmt::format("--device cuda is not available: {}, or use --device cpu", build));
}
bool has_gpu() { return false; }
}  // namespace

#endif

DeviceKind resolve(DeviceKind kind) {
  if (kind != DeviceKind::automatic) return kind;
  return has_gpu() ? DeviceKind::cuda : DeviceKind::cpu;
}

std::unique_ptr<Backend> make_backend(const DeviceOptions& options) {
  switch (resolve(options.kind)) {
    case DeviceKind::reference:
      return std::make_unique<reference::ReferenceBackend>(options.progress);
    case DeviceKind::cuda: return make_cuda(options);
    default: return std::make_unique<cpu::CpuBackend>(options);
  }
}

}  // namespace lockstep::backend
