// SPDX-License-Identifier: BSD-3-Clause
// Dropout: y = m x / (1 - p), dx = m dy / (1 - p); the identity in inference. Both passes compute
// the mask m from the number of the uploaded step.

#include "kernels/dropout.hpp"
#include "launch.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/operations/dropout.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class DropoutOf : public KernelOperation {
 public:
  DropoutOf(const graph::Dropout& operation, const Context& context, Operands given)
      : KernelOperation(context, std::move(given)) {
    const PlanOptions& options = context.options;
    const auto key = core::random_key(options.seed, core::RandomStream::operations);
    mask_ = {.key0 = key[0],
             .key1 = key[1],
             .layer = operation.layer,
             .first_image = options.first_image,
             .image_stride = options.image_stride,
             .probability = operation.probability,
             .step = nullptr};
  }

  void forward() override {
    const FeatureMap& from = *operands().inputs[0];
    const FeatureMap& to = *operands().output;
    if (context().is_training()) {
      apply_mask(from, to);
      return;
    }
    check_cuda(cudaMemcpyAsync(to.data, from.data, to.bytes(), cudaMemcpyDeviceToDevice, stream()),
               "copying a feature map");
  }

  void backward() override {
    if (operands().input_gradients[0] != nullptr)
      apply_mask(*operands().output_gradients[0], *operands().input_gradients[0]);
  }

 private:
  void apply_mask(const FeatureMap& from, const FeatureMap& to) {
    mask_.step = &context().step->inputs->step;
    launch(stream(), kernels::Dropout<T>{from.as<T>(), to.as<T>(), mask_, to.images,
                                         to.shape.pixels(), to.shape.channels});
  }

  kernels::DropoutMask mask_{};
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Dropout& operation, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<DropoutOf>(operands.output->type, operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
