// Max-pool: y = max over the window; the gradient goes to the first largest element (PyTorch's
// choice), whose place in the window is kept as one byte per output.

#include <limits>
#include <variant>

#include "lockstep/core/error.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

float load(float value) { return value; }
float load(core::BFloat16 value) { return core::to_float(value); }
void store(float value, float& to) { to = value; }
void store(float value, core::BFloat16& to) { to = core::to_bfloat16(value); }

template <class T>
class MaxPoolOf : public Operation {
 public:
  MaxPoolOf(const Context& context, const Step& step, Ports given)
      : Operation(std::move(given)),
        operation_(std::get<graph::MaxPool>(context.graph->node(step.node).operation)),
        threads_(context.threads) {
    core::check(operation_.kernel <= 15, "the place in a max-pool's window fits a byte");
  }

  std::size_t kept_bytes() const override { return ports().output->elements(); }
  void bind(const Binding& binding) override {
    places_ = reinterpret_cast<std::uint8_t*>(binding.kept);
  }

  void forward() override {
    const FeatureMap& in = *ports().inputs[0];
    const FeatureMap& out = *ports().output;
    for_each_output(
        [&](std::int64_t plane, std::int64_t row, std::int64_t column, std::int64_t at) {
          const T* const x = in.as<T>() + plane * in.plane();
          T* const y = out.as<T>() + at;
          for (std::int64_t lane = 0; lane < in.lanes(); ++lane) {
            float best = -std::numeric_limits<float>::infinity();
            std::uint8_t place = 0;
            for_each_in_window(in.shape, row, column, [&](std::int64_t pixel, std::uint8_t here) {
              const float value = load(x[pixel * in.lanes() + lane]);
              if (value > best || value != value) {
                best = value;
                place = here;
              }
            });
            store(best, y[lane]);
            places_[at + lane] = place;
          }
        });
  }

  void backward() override {
    const FeatureMap& in = *ports().input_gradients[0];
    const T* const dy = ports().output_gradients[0]->template as<T>();
    const FeatureMap& out = *ports().output;
    const std::int64_t planes = in.images * in.blocks();
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      T* const dx = in.as<T>() + plane * in.plane();
      std::fill_n(dx, in.plane(), T{});
      for (std::int64_t row = 0; row < out.shape.height; ++row) {
        for (std::int64_t column = 0; column < out.shape.width; ++column) {
          const std::int64_t at =
              plane * out.plane() + (row * out.shape.width + column) * out.lanes();
          for (std::int64_t lane = 0; lane < out.lanes(); ++lane) {
            const std::int64_t place = places_[at + lane];
            const std::int64_t y =
                row * operation_.stride - operation_.padding + place / operation_.kernel;
            const std::int64_t x =
                column * operation_.stride - operation_.padding + place % operation_.kernel;
            T& to = dx[(y * in.shape.width + x) * in.lanes() + lane];
            store(load(to) + load(dy[at + lane]), to);
          }
        }
      }
    }
  }

 private:
  template <class Work>
  void for_each_output(Work&& work) const {
    const FeatureMap& out = *ports().output;
    const std::int64_t planes = out.images * out.blocks();
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      for (std::int64_t row = 0; row < out.shape.height; ++row) {
        for (std::int64_t column = 0; column < out.shape.width; ++column) {
          work(plane, row, column,
               plane * out.plane() + (row * out.shape.width + column) * out.lanes());
        }
      }
    }
  }

  /// Calls work(pixel, place in the window) for the part of the window that lies in the image.
  template <class Work>
  void for_each_in_window(core::ImageShape image, std::int64_t row, std::int64_t column,
                          Work&& work) const {
    for (std::int64_t i = 0; i < operation_.kernel; ++i) {
      const std::int64_t y = row * operation_.stride - operation_.padding + i;
      if (y < 0 || y >= image.height) continue;
      for (std::int64_t j = 0; j < operation_.kernel; ++j) {
        const std::int64_t x = column * operation_.stride - operation_.padding + j;
        if (x < 0 || x >= image.width) continue;
        work(y * image.width + x, static_cast<std::uint8_t>(i * operation_.kernel + j));
      }
    }
  }

  graph::MaxPool operation_;
  int threads_;
  std::uint8_t* places_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_max_pool(const Context& context, const Step& step, Ports ports) {
  if (ports.output->type == core::DataType::bfloat16) {
    return std::make_unique<MaxPoolOf<core::BFloat16>>(context, step, std::move(ports));
  }
  return std::make_unique<MaxPoolOf<float>>(context, step, std::move(ports));
}

}  // namespace lockstep::backend::cpu
