// The seam between devices: the one file of this room that knows which there are.

#include <fmt/format.h>

#include "cpu/backend.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "reference/backend.hpp"

namespace lockstep::backend {

std::string_view name(DeviceKind kind) {
  switch (kind) {
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
  }
  core::check(false, "unknown algorithm");
  return {};
}

std::unique_ptr<Backend> make_backend(DeviceKind kind, int threads) {
  switch (kind) {
    case DeviceKind::reference: return std::make_unique<reference::ReferenceBackend>();
    case DeviceKind::cpu: return std::make_unique<cpu::CpuBackend>(threads);
    case DeviceKind::cuda: break;
  }
  core::fail(core::ExitStatus::usage,
             "--device cuda is not available: this build of Lockstep has no CUDA backend; use "
             "--device cpu");
}

}  // namespace lockstep::backend
