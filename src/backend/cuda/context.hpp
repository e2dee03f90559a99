// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../fusion.hpp"
#include "../operation.hpp"
#include "batch_norm/fusion_plan.hpp"
#include "device/device.hpp"
#include "kernels/loss.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/image.hpp"

namespace lockstep::backend::cuda {

class DnnPlanner;
class SideStream;

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
};

/// The inputs of one step in device memory. They stay valid until the upload after the next one.
struct UploadedStep {
  const StepInputs* inputs = nullptr;
  const std::byte* pixels = nullptr;      ///< uint8 (stored images, channels, height, width)
  const core::CropFlip* crops = nullptr;  ///< (images); null: no crop and no flip
  const std::int32_t* labels = nullptr;
  /// (images) index of the stored image and its label; null: i for image i.
  const std::int32_t* source = nullptr;
  std::int64_t images = 0;  ///< number of images in the batch
};

/// Common arguments of all operations of a plan.
struct Context {
  const graph::Graph* graph = nullptr;
  PlanOptions options;
  core::DataType element = core::DataType::float32;  ///< of feature maps
  const Target* target = nullptr;
  DnnPlanner* planner = nullptr;
  DeviceParameters parameters{};
  BatchNormFusionPlan fusion_plan{};
  const UploadedStep* step = nullptr;  ///< the step that was uploaded last
  /// Set before the operations are bound if `uses_side_stream`.
  const SideStream* side_stream = nullptr;

  cudaStream_t stream() const { return target->stream(); }
  bool is_training() const { return options.mode == Mode::training; }
  bool uses_side_stream() const {
    return is_training() && options.weight_stream == WeightStream::on;
  }
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
