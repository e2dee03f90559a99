// Global average pooling: the mean over the pixels of each channel, from a feature map in any
// layout and type to plain float32 features (images, channels); dx = dy / pixels.

#include <algorithm>

#include "operations.hpp"
#include "pool_kernels.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class T>
class AveragePoolOf : public Operation {
 public:
  AveragePoolOf(const Context& context, Operands given)
      : Operation(std::move(given)), threads_(context.threads) {}

  void bind(const MemoryBinding&) override {}

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    float* const means = operands().output->template as<float>();
    for_each_plane(in, [&](std::int64_t plane, std::int64_t feature, std::int64_t channels) {
      mean_of_pixels(in.as<const T>() + plane * in.plane(), in.shape.pixels(), in.lanes(), channels,
                     means + feature);
    });
  }

  void backward() override {
    if (operands().input_gradients[0] == nullptr) return;
    const FeatureMap& in = *operands().input_gradients[0];
    const float* const dy = operands().output_gradients[0]->template as<float>();
    const float share = 1.0f / static_cast<float>(in.shape.pixels());
    for_each_plane(in, [&](std::int64_t plane, std::int64_t feature, std::int64_t channels) {
      fill_pixels(dy + feature, share, in.shape.pixels(), in.lanes(), channels,
                  in.as<T>() + plane * in.plane());
    });
  }

 private:
  /// Calls work(plane, index of its first feature, number of its channels without padding).
  template <class Work>
  void for_each_plane(const FeatureMap& map, Work&& work) const {
    const std::int64_t planes = map.images * map.blocks();
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      const std::int64_t channel = plane % map.blocks() * map.lanes();
      work(plane, plane / map.blocks() * map.shape.channels + channel,
           std::min(map.lanes(), map.shape.channels - channel));
    }
  }

  int threads_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::GlobalAveragePool&, const Context& context,
                                          const Step&, Operands operands) {
  if (operands.inputs[0]->type == core::DataType::bfloat16) {
    return std::make_unique<AveragePoolOf<core::BFloat16>>(context, std::move(operands));
  }
  return std::make_unique<AveragePoolOf<float>>(context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
