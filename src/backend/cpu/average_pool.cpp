// Global average pool: the mean over the pixels of each channel, from a feature map in any layout
// and type to plain float32 features (images, channels); dx = dy / pixels. On 1 x 1 maps it only
// changes layout and type.

#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

float load(float value) { return value; }
float load(core::BFloat16 value) { return core::to_float(value); }
void store(float value, float& to) { to = value; }
void store(float value, core::BFloat16& to) { to = core::to_bfloat16(value); }

template <class T>
class AveragePoolOf : public Operation {
 public:
  AveragePoolOf(const Context& context, Ports given)
      : Operation(std::move(given)), threads_(context.threads) {}

  void bind(const Binding&) override {}

  void forward() override {
    const FeatureMap& in = *ports().inputs[0];
    float* const means = ports().output->as<float>();
    const float share = 1.0f / static_cast<float>(in.shape.pixels());
    for_each_channel(in, [&](std::int64_t at, std::int64_t feature) {
      const T* const x = in.as<T>() + at;
      float sum = 0;
      for (std::int64_t pixel = 0; pixel < in.shape.pixels(); ++pixel)
        sum += load(x[pixel * in.lanes()]);
      means[feature] = sum * share;
    });
  }

  void backward() override {
    if (ports().input_gradients[0] == nullptr) return;
    const FeatureMap& in = *ports().input_gradients[0];
    const float* const dy = ports().output_gradients[0]->as<float>();
    const float share = 1.0f / static_cast<float>(in.shape.pixels());
    for_each_channel(in, [&](std::int64_t at, std::int64_t feature) {
      T* const dx = in.as<T>() + at;
      const float value = dy[feature] * share;
      for (std::int64_t pixel = 0; pixel < in.shape.pixels(); ++pixel)
        store(value, dx[pixel * in.lanes()]);
    });
    clear_padding(in);
  }

 private:
  /// Calls work(offset of the channel's first pixel in the map, index of the feature).
  template <class Work>
  void for_each_channel(const FeatureMap& map, Work&& work) const {
    const std::int64_t channels = map.shape.channels;
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t image = 0; image < map.images; ++image) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const std::int64_t plane = image * map.blocks() + channel / map.lanes();
        work(plane * map.plane() + channel % map.lanes(), image * channels + channel);
      }
    }
  }

  static void clear_padding(const FeatureMap& map) {
    for (std::int64_t channel = map.shape.channels; channel < map.padded_channels(); ++channel) {
      for (std::int64_t image = 0; image < map.images; ++image) {
        T* const x = map.as<T>() + (image * map.blocks() + map.blocks() - 1) * map.plane() +
                     channel % map.lanes();
        for (std::int64_t pixel = 0; pixel < map.shape.pixels(); ++pixel)
          x[pixel * map.lanes()] = T{};
      }
    }
  }

  int threads_;
};

}  // namespace

std::unique_ptr<Operation> make_average_pool(const Context& context, Ports ports) {
  if (ports.inputs[0]->type == core::DataType::bfloat16) {
    return std::make_unique<AveragePoolOf<core::BFloat16>>(context, std::move(ports));
  }
  return std::make_unique<AveragePoolOf<float>>(context, std::move(ports));
}

}  // namespace lockstep::backend::cpu
