// Max pooling: y = maximum over the window. The gradient is added to the first largest element (as
// in PyTorch), whose position in the window is saved as one byte per output.

#include <algorithm>
#include <array>
#include <span>

#include "lockstep/core/error.hpp"
#include "operations.hpp"
#include "pool_kernels.hpp"

namespace lockstep::backend::cpu {

namespace {

constexpr std::int64_t largest_kernel = 15;

template <class T>
class MaxPoolOf : public Operation {
 public:
  MaxPoolOf(const graph::MaxPool& operation, const Context& context, Operands given)
      : Operation(std::move(given)), operation_(operation), threads_(context.threads) {
    core::check(operation_.kernel <= largest_kernel,
                "the place in a max-pool's window fits a byte");
  }

  std::size_t saved_bytes() const override { return operands().output->elements(); }
  void bind(const MemoryBinding& binding) override {
    places_ = reinterpret_cast<std::uint8_t*>(binding.saved);
  }

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    T* const y = operands().output->template as<T>();
    for_each_window([&](std::int64_t plane, std::int64_t at, std::span<const WindowPixel> window) {
      max_of_window(in.as<const T>() + plane * in.plane(), window, in.lanes(), y + at,
                    places_ + at);
    });
  }

  void backward() override {
    const FeatureMap& in = *operands().input_gradients[0];
    const T* const dy = operands().output_gradients[0]->template as<T>();
    const std::int64_t planes = in.images * in.blocks();
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t plane = 0; plane < planes; ++plane)
      std::fill_n(in.as<T>() + plane * in.plane(), in.plane(), T{});
    for_each_window([&](std::int64_t plane, std::int64_t at, std::span<const WindowPixel> window) {
      add_at_places(dy + at, places_ + at, window, in.lanes(), in.as<T>() + plane * in.plane());
    });
  }

 private:
  /// Calls work(plane, index of the output pixel's first lane, the part of its window that is in
  /// the image). Each thread processes one plane after the other.
  template <class Work>
  void for_each_window(Work&& work) const {
    const FeatureMap& out = *operands().output;
    const core::ImageShape image = operands().inputs[0]->shape;
    const std::int64_t planes = out.images * out.blocks();
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      std::array<WindowPixel, largest_kernel * largest_kernel> window;
      std::int64_t at = plane * out.plane();
      for (std::int64_t row = 0; row < out.shape.height; ++row) {
        for (std::int64_t column = 0; column < out.shape.width; ++column, at += out.lanes()) {
          const std::size_t count = pixels_of_window(image, row, column, window);
          work(plane, at, std::span(window).first(count));
        }
      }
    }
  }

  std::size_t pixels_of_window(core::ImageShape image, std::int64_t row, std::int64_t column,
                               std::span<WindowPixel> window) const {
    std::size_t count = 0;
    for (std::int64_t i = 0; i < operation_.kernel; ++i) {
      const std::int64_t y = row * operation_.stride - operation_.padding + i;
      if (y < 0 || y >= image.height) continue;
      for (std::int64_t j = 0; j < operation_.kernel; ++j) {
        const std::int64_t x = column * operation_.stride - operation_.padding + j;
        if (x < 0 || x >= image.width) continue;
        window[count++] = {y * image.width + x,
                           static_cast<std::uint8_t>(i * operation_.kernel + j)};
      }
    }
    return count;
  }

  graph::MaxPool operation_;
  int threads_;
  std::uint8_t* places_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::MaxPool& operation, const Context& context,
                                          const Step&, Operands operands) {
  if (operands.output->type == core::DataType::bfloat16) {
    return std::make_unique<MaxPoolOf<core::BFloat16>>(operation, context, std::move(operands));
  }
  return std::make_unique<MaxPoolOf<float>>(operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
