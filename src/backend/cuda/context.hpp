#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "../operation.hpp"
#include "device/device.hpp"
#include "kernels/loss.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

class BatchNormLinks;
class DnnPlanner;

/// Where a plan's operations find parameters on the device, in the form in which they read and
/// write them. Filled in before operations are bound.
struct DeviceParameters {
  struct Place {
    void* weight = nullptr;    ///< a convolution's in the maps' type, KRSC; float32 otherwise
    void* gradient = nullptr;  ///< the same form; null in inference
  };
  std::vector<Place> places;          ///< by index into Graph::parameters()
  float* statistics = nullptr;        ///< flat
  const float* loss_scale = nullptr;  ///< one value
  kernels::DeviceResult* result = nullptr;
};

/// What operations are made with.
struct Context {
  const graph::Graph* graph = nullptr;
  PlanOptions options;
  core::DataType element = core::DataType::float32;  ///< of feature maps
  const Target* target = nullptr;
  DnnPlanner* planner = nullptr;
  const DeviceParameters* parameters = nullptr;
  const BatchNormLinks* links = nullptr;

  cudaStream_t stream() const { return target->stream(); }
  bool is_training() const { return options.mode == Mode::training; }
};

/// Calls `work` with a value of the type, for templates over the types of feature maps.
template <class Work>
auto with_type(core::DataType type, Work&& work) {
  switch (type) {
    case core::DataType::bfloat16: return work(core::BFloat16{});
    case core::DataType::float16: return work(kernels::Float16{});
    case core::DataType::float32: break;
  }
  return work(float{});
}

/// Makes `Kind<T>(arguments...)` for the maps' type T.
template <template <class> class Kind, class Base = Operation, class... Arguments>
std::unique_ptr<Base> make_for(core::DataType type, Arguments&&... arguments) {
  return with_type(type, [&](auto zero) -> std::unique_ptr<Base> {
    return std::make_unique<Kind<decltype(zero)>>(std::forward<Arguments>(arguments)...);
  });
}

}  // namespace lockstep::backend::cuda
