// SPDX-License-Identifier: BSD-3-Clause
// Dropout: y = m x / (1 - p), dx = m dy / (1 - p); the identity in inference. The mask m is
// computed again in the backward pass instead of being stored (see
// src/backend/reference/dropout.cpp).

#include <array>
#include <cstring>

#include "lockstep/core/random.hpp"
#include "lockstep/graph/operations/dropout.hpp"
#include "operations.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

namespace {

/// The mask of one image. Elements should be read in ascending order, because one block of random
/// numbers is used for four elements.
class ImageMask {
 public:
  ImageMask(std::array<std::uint32_t, 2> key, std::uint32_t image, std::uint32_t step,
            const graph::Dropout& operation)
      : key_(key), image_(image), step_(step), operation_(operation) {}

  bool keeps(std::int64_t element) {
    const std::int64_t block = element / 4;
    if (block != block_) {
      numbers_ = core::philox4x32(
          {static_cast<std::uint32_t>(block), image_, step_, operation_.layer}, key_);
      block_ = block;
    }
    return core::to_uniform(numbers_[static_cast<std::size_t>(element % 4)]) >=
           operation_.probability;
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t image_, step_;
  const graph::Dropout& operation_;
  std::int64_t block_ = -1;
  std::array<std::uint32_t, 4> numbers_{};
};

template <class T>
class DropoutOf : public Operation {
 public:
  DropoutOf(const graph::Dropout& operation, const Context& context, Operands given)
      : Operation(std::move(given)), operation_(operation), context_(context) {}

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
    const auto key = core::random_key(context_.options.seed, core::RandomStream::operations);
    const auto step = static_cast<std::uint32_t>(context_.batch->step);
    const float scale = 1 / (1 - operation_.probability);
    const std::int64_t pixels = to.shape.pixels();
    const std::int64_t lanes = to.lanes();
    const std::int64_t tasks = to.images * to.blocks();
#pragma omp parallel for num_threads(context_.threads)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t image = task / to.blocks(), block = task % to.blocks();
      const std::int64_t stride = to.pixel_stride(to.block_of(image));
      ImageMask mask(key, static_cast<std::uint32_t>(context_.options.global_image(image)), step,
                     operation_);
      const T* const x = from.as<T>() + to.offset(image, block);
      T* const y = to.as<T>() + to.offset(image, block);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const std::int64_t channel = block * lanes + lane;
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
          const std::int64_t at = pixel * stride + lane;
          const bool is_kept = mask.keeps(channel * pixels + pixel);
          store(is_kept ? scale * load(x[at]) : 0, y[at]);
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
