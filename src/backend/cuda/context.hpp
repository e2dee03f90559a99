// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "../fusion.hpp"
#include "../operation.hpp"
#include "device/device.hpp"
#include "kernels/loss.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/image.hpp"

namespace lockstep::backend::cuda {

class DnnPlanner;
class SideStream;
struct Context;

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

/// Fusion of a batch norm with the preceding convolution, which also computes the sums of its
/// output that the batch norm needs.
struct FusedBatchNorm {
  graph::NodeId convolution = -1;
  graph::NodeId batch_norm = -1;
  std::int64_t channels = 0;
  float* sums = nullptr;     ///< (channels), in device memory
  float* squares = nullptr;  ///< as `sums`

  std::size_t vector_bytes() const;  ///< of `sums` and of `squares`, with padding
};

/// All fusions of batch norms with convolutions in a plan. The constructor goes through the steps
/// of the plan and decides which batch norms to fuse (`PlanOptions::batch_norm_fusion`).
class BatchNormFusionPlan {
 public:
  BatchNormFusionPlan() = default;
  BatchNormFusionPlan(const Context& context, const std::vector<Step>& steps);

  /// Returns the fusion of a node, a convolution or a batch norm; null if there is none.
  const FusedBatchNorm* find(graph::NodeId node) const;

  /// Size in bytes of the sums and squares, which must be zeroed before each forward pass.
  std::size_t bytes() const;
  void place(std::byte* memory);  ///< `memory`: `bytes()`, aligned to 256 bytes

 private:
  std::deque<FusedBatchNorm> entries_;  ///< a deque keeps the addresses of its elements valid
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
