// SPDX-License-Identifier: BSD-3-Clause
#include "sensors.hpp"

#include <dlfcn.h>

namespace lockstep::backend::cuda {

namespace {

// The part of the NVML interface that is used, declared here because the NVML header is not
// installed on every machine with CUDA. Status 0 means success. Functions with the suffix _v2 are
// the current versions, unchanged since 2012.
using Status = int;
struct Utilisation {
  unsigned int gpu, memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};

constexpr Status success = 0;

}  // namespace

struct Sensors::Library {
  struct Closer {
    void operator()(void* handle) const noexcept { dlclose(handle); }
  };
  std::unique_ptr<void, Closer> handle;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  Status (*find)(const char*, void**) = nullptr;
  Status (*energy)(void*, unsigned long long*) = nullptr;
  Status (*utilisation)(void*, Utilisation*) = nullptr;
  Status (*memory)(void*, Memory*) = nullptr;
  Status (*power)(void*, unsigned int*) = nullptr;

  template <class Function>
  bool load(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle.get(), name));
    return function != nullptr;
  }
  bool load_all() {
    return load("nvmlInit_v2", init) && load("nvmlShutdown", shutdown) &&
           load("nvmlDeviceGetHandleByPciBusId_v2", find) &&
           load("nvmlDeviceGetTotalEnergyConsumption", energy) &&
           load("nvmlDeviceGetUtilizationRates", utilisation) &&
           load("nvmlDeviceGetMemoryInfo", memory) && load("nvmlDeviceGetPowerUsage", power);
  }
};

Sensors::Sensors(const std::string& pci_bus_id, const char* library) {
  auto loaded = std::make_unique<Library>();
  loaded->handle.reset(dlopen(library, RTLD_NOW | RTLD_LOCAL));
  if (loaded->handle == nullptr || !loaded->load_all() || loaded->init() != success) return;
  if (loaded->find(pci_bus_id.c_str(), &device_) != success) {
    static_cast<void>(loaded->shutdown());
    return;
  }
  library_ = std::move(loaded);
}

Sensors::~Sensors() {
  if (library_ != nullptr) static_cast<void>(library_->shutdown());
}

SensorReading Sensors::read() const {
  SensorReading reading;
  if (library_ == nullptr) return reading;
  unsigned long long millijoules = 0;
  if (library_->energy(device_, &millijoules) == success)
    reading.energy_joules = static_cast<double>(millijoules) / 1000;
  Utilisation utilisation{};
  if (library_->utilisation(device_, &utilisation) == success)
    reading.utilisation = static_cast<double>(utilisation.gpu) / 100;
  Memory memory{};
  if (library_->memory(device_, &memory) == success)
    reading.memory_bytes = static_cast<double>(memory.used);
  unsigned int milliwatts = 0;
  if (library_->power(device_, &milliwatts) == success)
    reading.power_watts = static_cast<double>(milliwatts) / 1000;
  return reading;
}

}  // namespace lockstep::backend::cuda
