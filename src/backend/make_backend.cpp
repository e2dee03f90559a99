// SPDX-License-Identifier: BSD-3-Clause
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
      {{DeviceKind::automatic, "auto", "cuda if this build can use a GPU, else cpu"},
       {DeviceKind::cpu, "cpu"},
       {DeviceKind::cuda, "cuda"},
       {DeviceKind::reference, "reference", "slow, for tests"}}};
  return values;
}

std::span<const core::NamedValue<EngineSelection>> named_values(EngineSelection) {
  static constexpr std::array<core::NamedValue<EngineSelection>, 2> values{
      {{EngineSelection::timed, "timed", "the fastest by timing"},
       {EngineSelection::quick, "quick",
        "precompiled, without timing; for first runs and debugging"}}};
  return values;
}

std::span<const core::NamedValue<ConvolutionAlgorithm>> named_values(ConvolutionAlgorithm) {
  using enum ConvolutionAlgorithm;
  static constexpr std::array<core::NamedValue<ConvolutionAlgorithm>, 7> values{
      {{automatic, "auto", "the fastest by timing for each convolution and direction"},
       {direct, "direct", "oneDNN"},
       {winograd, "winograd", "F(4x4, 3x3) in float32; stride 1 and 2"},
       {winograd_int16, "winograd-int16",
        "F(4x4, 3x3) with 16-bit integers, for bf16; stride 1 and 2, at least 16 channels; others "
        "use amx or avx512-bf16; very slow without AVX512-VNNI and AVX512-BF16"},
       {winograd_bf16, "winograd-bf16", "as winograd-int16, F(2x2, 3x3) in bf16; stride 1"},
       {amx, "amx",
        "AMX tiles; bf16, 1x1 and 3x3, at least 16 channels; very slow on "
        "processors without AMX"},
       {avx512_bf16, "avx512-bf16", "as amx, with AVX512-BF16 instructions"}}};
  return values;
}

std::span<const core::NamedValue<BatchNormFusion>> named_values(BatchNormFusion) {
  using enum BatchNormFusion;
  static constexpr std::array<core::NamedValue<BatchNormFusion>, 3> values{
      {{automatic, "auto", "the faster one by timing for each layer"},
       {none, "none", "separate kernels"},
       {sums, "sums", "the convolution also accumulates the batch-norm statistics"}}};
  return values;
}

std::span<const core::NamedValue<WeightStream>> named_values(WeightStream) {
  static constexpr std::array<core::NamedValue<WeightStream>, 2> values{
      {{WeightStream::on, "on", "beside the operations that follow in the backward pass"},
       {WeightStream::off, "off", "one after the other"}}};
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
