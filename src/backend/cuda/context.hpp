// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../operation.hpp"
#include "device/device.hpp"
#include "kernels/loss.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

class BatchNormFusionPlan;
class DnnPlanner;

/// Values that change from step to step. Kernels read them from device memory, so that each replay
/// of a captured step uses the current values.
struct StepInputs {
  optim::Coefficients update;
  std::uint32_t step = 0;  ///< number of the training step, for random numbers
};

/// Device addresses of the parameters, in the data types and layouts in which a plan's operations
/// read and write them. Filled in before the operations are bound.
struct DeviceParameters {
  struct Place {
    /// Convolutions: in the data type of the feature maps, KRSC. Other operations: float32.
    void* weight = nullptr;
    /// As `weight`, except that the gradient of a bias is float32; null in inference.
    void* gradient = nullptr;
  };
  std::vector<Place> places;          ///< indexed as Graph::parameters()
  float* statistics = nullptr;        ///< running statistics, flat buffer
  const float* loss_scale = nullptr;  ///< one value
  kernels::DeviceResult* result = nullptr;
  /// Values of the uploaded step; the address changes with each upload.
  const StepInputs* step_inputs = nullptr;
};

/// Labels of a batch in device memory, and the number of images in the batch.
struct DeviceLabels {
  const std::int32_t* labels = nullptr;
  /// Index into `labels` of each image; null: i for image i.
  const std::int32_t* source = nullptr;
  std::int64_t images = 0;
};

/// Common arguments of all operations of a plan.
struct Context {
  const graph::Graph* graph = nullptr;
  PlanOptions options;
  core::DataType element = core::DataType::float32;  ///< of feature maps
  const Target* target = nullptr;
  DnnPlanner* planner = nullptr;
  const DeviceParameters* parameters = nullptr;
  const DeviceLabels* labels = nullptr;  ///< of the uploaded batch
  const BatchNormFusionPlan* fusion_plan = nullptr;

  cudaStream_t stream() const { return target->stream(); }
  bool is_training() const { return options.mode == Mode::training; }
};

/// Calls `work` with a value of the C++ type that corresponds to `type`, for templates over the
/// data types of feature maps.
template <class Work>
auto with_type(core::DataType type, Work&& work) {
  switch (type) {
    case core::DataType::bfloat16: return work(core::BFloat16{});
    case core::DataType::float16: return work(kernels::Float16{});
    case core::DataType::float32: break;
  }
  return work(float{});
}

/// Creates `Kind<T>(arguments...)`, where T is the C++ type that corresponds to `type`.
template <template <class> class Kind, class Base = Operation, class... Arguments>
std::unique_ptr<Base> make_for(core::DataType type, Arguments&&... arguments) {
  return with_type(type, [&](auto zero) -> std::unique_ptr<Base> {
    return std::make_unique<Kind<decltype(zero)>>(std::forward<Arguments>(arguments)...);
  });
}

}  // namespace lockstep::backend::cuda
