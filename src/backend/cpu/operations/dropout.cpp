// SPDX-License-Identifier: BSD-3-Clause
// Dropout: y = m x / (1 - p), dx = m dy / (1 - p); the identity in inference. The mask m is
// computed again in the backward pass instead of being stored (see
// src/backend/reference/dropout.cpp).

#include <cstring>

#include "../kernels/vectors.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/operations/dropout.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class T>
class DropoutOf : public Operation {
 public:
  DropoutOf(const graph::Dropout& operation, const Context& context, Operands given)
      : Operation(std::move(given)), operation_(operation), context_(context) {}

  std::optional<std::size_t> overwritten_gradient(std::size_t) const override { return 0; }

  void forward() override {
    const FeatureMap& from = *operands().inputs[0];
    const FeatureMap& to = *operands().output;
    if (context_.options.mode == Mode::training) {
      apply_mask(from, to);
    } else {
      std::memcpy(to.data, from.data, to.bytes());
    }
  }

  void backward() override {
    if (operands().input_gradients[0] != nullptr)
      apply_mask(*operands().output_gradients[0], *operands().input_gradients[0]);
  }

 private:
  void apply_mask(const FeatureMap& from, const FeatureMap& to) const {
    const std::uint64_t mask =
        (std::uint64_t{operation_.layer} << 32) | static_cast<std::uint32_t>(context_.batch->step);
    const float scale = 1 / (1 - operation_.probability);
#pragma omp parallel for num_threads(context_.threads)
    for (std::int64_t image = 0; image < to.images; ++image) {
      core::Random random(context_.options.seed, core::RandomStream::operations, mask,
                          static_cast<std::uint32_t>(context_.options.global_image(image)));
      const std::int64_t stride = to.pixel_stride(to.block_of(image));
      for (std::int64_t channel = 0; channel < to.padded_channels(); ++channel) {
        const std::int64_t first = to.index(image, channel, 0);
        for (std::int64_t pixel = 0; pixel < to.shape.pixels(); ++pixel) {
          const std::int64_t at = first + pixel * stride;
          const bool is_kept = random.uniform() >= operation_.probability;
          store(is_kept ? scale * load(from.as<T>()[at]) : 0, to.as<T>()[at]);
        }
      }
    }
  }

  graph::Dropout operation_;
  const Context& context_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Dropout& operation, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<DropoutOf>(operands.output->type, operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
