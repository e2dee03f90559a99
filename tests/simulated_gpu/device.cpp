// SPDX-License-Identifier: BSD-3-Clause
// Replaces device.cpp of the CUDA backend: one simulated GPU of compute capability 9.0 is present.

#include "backend/cuda/device/device.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"
#include "simulated_gpu/engines.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {

namespace {

int number = 0;  // of the GPU of this process
bool has_further_handles = true;

}  // namespace

int device_count() { return 1; }
DeviceInfo describe_device(int) {
  return {"simulated GPU", 90, 4, std::size_t{1} << 33, 1 << 12, fmt::format("GPU-{}", number),
          "0000:00:00.0"};
}
void check_supported(const DeviceInfo&) {}
void DnnHandleTraits::close(type handle) noexcept { cudnnDestroy(handle); }

namespace {

DnnHandle make_handle() {
  cudnnHandle_t handle = nullptr;
  check_cudnn(cudnnCreate(&handle), "opening cuDNN");
  return DnnHandle(handle);
}

}  // namespace

Target Target::device(int index) {
  simulated_gpu::unload_modules();
  Target target;
  target.info_ = describe_device(index);
  target.index_ = index;
  target.stream_ = core::make_stream();
  target.handle_ = make_handle();
  check_cudnn(cudnnSetStream(target.handle(), target.stream()), "giving cuDNN its stream");
  return target;
}

Target Target::sibling() const {
  if (!has_further_handles) core::fail(core::ExitStatus::out_of_memory, "no memory for a handle");
  Target target;
  target.info_ = info_;
  target.index_ = index_;
  target.handle_ = make_handle();
  return target;
}

void Target::make_current() const {}

Target Target::description(std::string_view) {
  core::fail(core::ExitStatus::usage, "the simulated GPU is here");
}

}  // namespace lockstep::backend::cuda

void lockstep::simulated_gpu::set_further_handles(bool are_available) {
  lockstep::backend::cuda::has_further_handles = are_available;
}
void lockstep::simulated_gpu::set_gpu(int number) { lockstep::backend::cuda::number = number; }
