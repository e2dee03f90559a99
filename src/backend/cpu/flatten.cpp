// SPDX-License-Identifier: BSD-3-Clause
// Flattening: a feature map in any layout and type to plain float32 features (images, channels x
// height x width), in the order (channel, row, column). For 1 x 1 maps it only converts layout and
// type.

#include <algorithm>

#include "map_values.hpp"
#include "operations.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class T>
class FlattenOf : public Operation {
 public:
  FlattenOf(const Context& context, Operands given)
      : Operation(std::move(given)), threads_(context.threads) {}

  void bind(const MemoryBinding&) override {}

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    float* const features = operands().output->template as<float>();
    for_each_value<T>(in, threads_,
                      [&](T& value, std::int64_t feature) { features[feature] = load(value); });
  }

  void backward() override {
    if (operands().input_gradients[0] == nullptr) return;
    const FeatureMap& in = *operands().input_gradients[0];
    const float* const dy = operands().output_gradients[0]->template as<float>();
    // Channels that only pad the map have the gradient 0.
    if (in.padded_channels() != in.shape.channels) std::fill_n(in.as<T>(), in.elements(), T{});
    for_each_value<T>(in, threads_,
                      [&](T& value, std::int64_t feature) { store(dy[feature], value); });
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Flatten&, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<FlattenOf>(operands.inputs[0]->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
