// SPDX-License-Identifier: BSD-3-Clause
// Global average pooling: the mean over the pixels of each channel, from a feature map in any
// layout and type to plain float32 features (images, channels); dx = dy / pixels.

#include <algorithm>

#include "../kernels/vectors.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class T>
class AveragePoolOf : public Operation {
 public:
  AveragePoolOf(const Context& context, Operands given)
      : Operation(std::move(given)), threads_(context.threads) {}

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    const float share = 1.0f / static_cast<float>(in.shape.pixels());
    for_each_block(
        in, [&](std::int64_t at, std::int64_t stride, std::int64_t feature, std::int64_t channels) {
          float* const means = operands().output->template as<float>() + feature;
          std::fill_n(means, channels, 0.0f);
          for (std::int64_t pixel = 0; pixel < in.shape.pixels(); ++pixel) {
            const T* const x = in.as<const T>() + at + pixel * stride;
            for (std::int64_t i = 0; i < channels; ++i) means[i] += load(x[i]);
          }
          for (std::int64_t i = 0; i < channels; ++i) means[i] *= share;
        });
  }

  void backward() override {
    if (operands().input_gradients[0] == nullptr) return;
    const FeatureMap& in = *operands().input_gradients[0];
    const float* const dy = operands().output_gradients[0]->template as<float>();
    const float share = 1.0f / static_cast<float>(in.shape.pixels());
    for_each_block(
        in, [&](std::int64_t at, std::int64_t stride, std::int64_t feature, std::int64_t channels) {
          T* const first = in.as<T>() + at;  // the other pixels are copies of the first one
          for (std::int64_t i = 0; i < channels; ++i) store(share * dy[feature + i], first[i]);
          std::fill(first + channels, first + in.lanes(), T{});
          for (std::int64_t pixel = 1; pixel < in.shape.pixels(); ++pixel)
            std::copy_n(first, in.lanes(), first + pixel * stride);
        });
  }

 private:
  /// Calls work(offset, distance of pixels, index of the first feature, number of channels without
  /// padding) for each image and block of channels.
  template <class Work>
  void for_each_block(const FeatureMap& map, Work&& work) const {
    const std::int64_t tasks = map.images * map.blocks();
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t image = task / map.blocks(), block = task % map.blocks();
      const std::int64_t channel = block * map.lanes();
      work(map.offset(image, block), map.pixel_stride(map.block_of(image)),
           image * map.shape.channels + channel,
           std::min(map.lanes(), map.shape.channels - channel));
    }
  }

  int threads_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::GlobalAveragePool&, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<AveragePoolOf>(operands.inputs[0]->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
