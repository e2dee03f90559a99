// Creation of backends: the only file of this module that refers to all devices.

#include <fmt/format.h>

#include <array>

#include "cpu/backend.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "reference/backend.hpp"
#ifdef LOCKSTEP_HAS_CUDA
#include "cuda/backend.hpp"
#endif

namespace lockstep::backend {

std::span<const core::NamedValue<DeviceKind>> named_values(DeviceKind) {
  static constexpr std::array<core::NamedValue<DeviceKind>, 4> values{
      {{DeviceKind::automatic, "auto",
        "cuda if a GPU is present that this build can use, otherwise cpu"},
       {DeviceKind::cpu, "cpu"},
       {DeviceKind::cuda, "cuda"},
       {DeviceKind::reference, "reference", "unoptimised reference implementation, for tests"}}};
  return values;
}

std::span<const core::NamedValue<EngineSelection>> named_values(EngineSelection) {
  static constexpr std::array<core::NamedValue<EngineSelection>, 2> values{
      {{EngineSelection::timed, "timed",
        "the fastest by measurement; compiles engines at run time"},
       {EngineSelection::quick, "quick",
        "the first precompiled engine that cuDNN names, and batch norm by kernels of this program; "
        "compiles and times nothing"}}};
  return values;
}

std::span<const core::NamedValue<ConvolutionAlgorithm>> named_values(ConvolutionAlgorithm) {
  using enum ConvolutionAlgorithm;
  static constexpr std::array<core::NamedValue<ConvolutionAlgorithm>, 6> values{
      {{automatic, "auto",
        "times every supported algorithm for each convolution and direction and selects the "
        "fastest"},
       {direct, "direct", "oneDNN"},
       {winograd, "winograd", "F(4x4, 3x3), computed in float32; 3x3 with stride 1"},
       {winograd_bf16, "winograd-bf16",
        "F(2x2, 3x3), computed with the bf16 instructions of the processor; bf16, 3x3 with stride "
        "1 and at least 16 channels; other convolutions use amx or avx512-bf16; emulated, and very "
        "slow, if the processor has neither"},
       {amx, "amx",
        "AMX tile products; bf16, 1x1 and 3x3 with at least 16 channels; emulated, and very slow, "
        "if the processor has no AMX"},
       {avx512_bf16, "avx512-bf16",
        "as amx, with the instructions AVX512-BF16, which the processor must have"}}};
  return values;
}

std::span<const core::NamedValue<BatchNormFusion>> named_values(BatchNormFusion) {
  using enum BatchNormFusion;
  static constexpr std::array<core::NamedValue<BatchNormFusion>, 3> values{
      {{automatic, "auto", "times both variants for each layer and selects the faster one"},
       {none, "none", "separate kernels"},
       {sums, "sums", "the convolution also accumulates the batch-norm statistics"}}};
  return values;
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
  const DeviceKind kind = resolve(options.kind);
  if (!options.engine_log.empty() && kind != DeviceKind::cuda)
    core::fail(core::ExitStatus::usage,
               "--engine-log: only GPUs have engines; omit it or use --device cuda");
  switch (kind) {
    case DeviceKind::reference:
      return std::make_unique<reference::ReferenceBackend>(options.progress);
    case DeviceKind::cuda: return make_cuda(options);
    default: return std::make_unique<cpu::CpuBackend>(options);
  }
}

}  // namespace lockstep::backend
