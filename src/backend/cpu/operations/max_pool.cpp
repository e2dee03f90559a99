// SPDX-License-Identifier: BSD-3-Clause
// Max pooling: y = maximum over the window. The gradient is added to the first largest element (as
// in PyTorch), whose position in the window is saved as one byte per output.

#include <algorithm>

#include "../kernels/division.hpp"
#include "../kernels/pool_kernels.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations/max_pool.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

constexpr std::int64_t largest_kernel = 15;

template <class T>
class MaxPoolOf : public Operation {
 public:
  MaxPoolOf(const graph::MaxPool& operation, const Context& context, Operands given)
      : Operation(std::move(given)),
        windows_{.kernel = operation.kernel,
                 .stride = operation.stride,
                 .padding = operation.padding,
                 .height = operands().inputs[0]->shape.height,
                 .width = operands().inputs[0]->shape.width,
                 .out_width = operands().output->shape.width},
        threads_(context.threads) {
    core::check(operation.kernel <= largest_kernel, "the place in a max-pool's window fits a byte");
  }

  std::size_t saved_bytes() const override { return operands().output->elements(); }
  void bind(const MemoryBinding& binding) override {
    places_ = reinterpret_cast<std::uint8_t*>(binding.saved);
  }

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    T* const y = operands().output->template as<T>();
    for_each_part([&](std::int64_t from, std::int64_t to, LaneRange lanes) {
      for_each_row(to, lanes.stride, [&](std::int64_t row, std::int64_t at) {
        max_of_row(in.as<const T>() + from, windows_, row, lanes, y + at, places_ + at);
      });
    });
  }

  void backward() override {
    const FeatureMap& in = *operands().input_gradients[0];
    const T* const dy = operands().output_gradients[0]->template as<T>();
    for_each_part([&](std::int64_t to, std::int64_t from, LaneRange lanes) {
      T* const dx = in.as<T>() + to;
      for (std::int64_t pixel = 0; pixel < in.shape.pixels() && !windows_.partition(); ++pixel)
        std::fill_n(dx + pixel * lanes.stride, lanes.count, T{});
      for_each_row(from, lanes.stride, [&](std::int64_t row, std::int64_t at) {
        add_at_places(dy + at, places_ + at, windows_, row, lanes, dx);
      });
    });
  }

 private:
  /// Calls work(index in the input, index in the output, lanes) for some lanes of each plane.
  /// Windows overlap in pixels, but not in lanes, so the calls are independent.
  template <class Work>
  void for_each_part(Work&& work) const {
    const FeatureMap& in = *operands().inputs[0];
    const FeatureMap& out = *operands().output;
    const BlockTasks tasks(out.images, out.images_per_block(), threads_,
                           ceil_div(out.pixel_stride(0), 64), out.blocks());
#pragma omp parallel for num_threads(threads_)
    for (std::int64_t task = 0; task < tasks.count(); ++task) {
      const std::int64_t image_block = tasks.block(task), stride = out.pixel_stride(image_block);
      const Range lanes = tasks.rows(task, stride);
      const Range blocks = tasks.columns(task, out.blocks());
      for (std::int64_t block = blocks.first; block < blocks.last; ++block)
        work(in.plane_offset(image_block, block) + lanes.first,
             out.plane_offset(image_block, block) + lanes.first,
             LaneRange{.stride = stride, .count = lanes.last - lanes.first});
    }
  }

  /// Calls work(row, index of its first pixel) for each row of the output; `first`: index of the
  /// first row; `stride`: distance of pixels.
  template <class Work>
  void for_each_row(std::int64_t first, std::int64_t stride, Work&& work) const {
    const FeatureMap& out = *operands().output;
    for (std::int64_t row = 0; row < out.shape.height; ++row)
      work(row, first + row * out.shape.width * stride);
  }

  PoolWindows windows_;
  int threads_;
  std::uint8_t* places_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::MaxPool& operation, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<MaxPoolOf>(operands.output->type, operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
