// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

namespace {

Target open_target(const DeviceOptions& options) {
  if (!options.target_gpu.empty()) {
    open_planning_driver();
    return Target::description(options.target_gpu);
  }
  const int devices = device_count();
  if (devices == 0) describe_device(0);  // throws; its message states what is missing
  return Target::device(options.local_rank % devices);
}

}  // namespace

Gpu::Gpu(const DeviceOptions& options) : target_(open_target(options)) {
  if (target_.is_present()) sensors_ = std::make_unique<Sensors>(target_.info().pci_bus_id);
}

core::DeviceQueue Gpu::queue() const {
  return {target_.index(), target_.stream(), target_.info().uuid};
}

std::string Gpu::name() const {
  return target_.is_present() ? target_.info().name
                              : target_.info().name + " (target GPU, not present)";
}

std::string Gpu::library_versions() const {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const std::size_t dnn = cudnnGetVersion();
  return fmt::format(
      "CUDA {}.{} (driver {}.{}), cuDNN {}.{}.{}, compute capability {}.{}", runtime / 1000,
      runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, dnn / 10000, dnn % 10000 / 100,
      dnn % 100, target_.info().compute_capability / 10, target_.info().compute_capability % 10);
}

void Gpu::require_presence(std::string_view what) const {
  if (target_.is_present()) return;
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{} requires the GPU: the {} is not present; only 'lockstep plan --for' works "
                  "with its description",
                  what, target_.info().name));
}

std::optional<std::uint64_t> Gpu::available_memory() const {
  if (!target_.is_present()) return target_.info().total_memory;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for the GPU's free memory");
  return free;
}

std::optional<DeviceIdentity> Gpu::identity() const {
  if (!target_.is_present()) return std::nullopt;
  const DeviceInfo& info = target_.info();
  return DeviceIdentity{info.name, info.uuid, info.pci_bus_id, info.total_memory};
}

SensorReading Gpu::read_sensors() const {
  return sensors_ != nullptr ? sensors_->read() : SensorReading{};
}

}  // namespace lockstep::backend::cuda
