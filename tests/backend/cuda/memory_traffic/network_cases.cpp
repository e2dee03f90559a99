// SPDX-License-Identifier: BSD-3-Clause
// Memory traffic of the kernels of the network, except batch norm.

#include "backend/cuda/kernels/dropout.hpp"
#include "backend/cuda/kernels/elementwise.hpp"
#include "backend/cuda/kernels/layout.hpp"
#include "backend/cuda/kernels/loss.hpp"
#include "backend/cuda/kernels/pooling.hpp"
#include "backend/cuda/kernels/slabs.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

template <class T>
std::vector<Traffic> elementwise() {
  constexpr std::int64_t n = 4096;
  const Tensor<T> a(n), b(n), c(n), y(n);
  return {
      count_traffic(typed<T>("ReluForward"), ReluForward<T>{a.data(), y.data(), n},
                    {reads("x", a), writes("y", y)}),
      count_traffic(typed<T>("ReluBackward"),
                    ReluBackward<T>{a.data(), b.data(), c.data(), y.data(), n},
                    {reads("dy", a), reads("dy2", b), reads("y", c), writes("dx", y)}),
      count_traffic(typed<T>("ReluBackward"),
                    ReluBackward<T>{a.data(), nullptr, c.data(), y.data(), n},
                    {reads("dy", a), reads("y", c), writes("dx", y)}, "without dy2"),
      count_traffic(typed<T>("Add"), Add<T>{a.data(), b.data(), y.data(), n},
                    {reads("a", a), reads("b", b), writes("sum", y)}),
  };
}

template <class T>
std::vector<Traffic> images() {
  constexpr std::int64_t images = 3, channels = 3, size = 32, padded = 8;
  const std::int64_t count = images * size * size;
  const Tensor<std::uint8_t> pixels(count * channels);
  const Tensor<std::int32_t> source(images);
  const Tensor<core::CropFlip> crops(images);
  const Tensor<T> y(count * padded);
  // A thread writes the two halves of its 32 bytes of float32 one after the other.
  const double ratio = sizeof(T) * padded > 16 ? 2 : 1;
  return {count_traffic(
      typed<T>("NormaliseImages"),
      NormaliseImages<T>{pixels.data(),
                         source.data(),
                         crops.data(),
                         y.data(),
                         images,
                         channels,
                         size,
                         size,
                         padded,
                         {0, 0, 0},
                         {1, 1, 1}},
      {reads("pixels", pixels), strided(writes("y", y), ratio), table("source", source, count * 4),
       table("crops", crops, count * static_cast<std::int64_t>(sizeof(core::CropFlip)))})};
}

template <class T>
std::vector<Traffic> average_pooling() {
  constexpr std::int64_t images = 2, pixels = 16, channels = 64;
  const Tensor<T> map(images * pixels * channels);
  const Tensor<float> vector(images * channels);
  return {
      count_traffic(typed<T>("AveragePoolForward"),
                    AveragePoolForward<T>{map.data(), vector.data(), images, pixels, channels},
                    {reads("x", map), writes("y", vector)}),
      count_traffic(typed<T>("AveragePoolBackward"),
                    AveragePoolBackward<T>{vector.data(), map.data(), images, pixels, channels},
                    {writes("dx", map), table("dy", vector, pixels * vector.bytes())}),
  };
}

/// Sums, over all windows of one dimension, of the window size and of its square. A window outside
/// the map is cut off.
struct WindowSums {
  std::int64_t sizes = 0, squares = 0;
};

WindowSums window_sums(std::int64_t size, std::int64_t outputs, const MaxPoolShape& shape) {
  WindowSums sums;
  for (std::int64_t at = 0; at < outputs; ++at) {
    std::int64_t inside = 0;
    for (std::int64_t i = 0; i < shape.kernel; ++i) {
      const std::int64_t position = at * shape.stride - shape.padding + i;
      inside += position >= 0 && position < size ? 1 : 0;
    }
    sums.sizes += inside;
    sums.squares += inside * inside;
  }
  return sums;
}

template <class T>
std::vector<Traffic> max_pooling() {
  const MaxPoolShape shape{2, 8, 8, 64, 4, 4, 3, 2, 1};
  const Tensor<T> x(shape.images * shape.height * shape.width * shape.channels);
  const Tensor<T> dx(shape.images * shape.height * shape.width * shape.channels);
  const Tensor<T> y(shape.images * shape.out_height * shape.out_width * shape.channels);
  const WindowSums rows = window_sums(shape.height, shape.out_height, shape);
  const WindowSums columns = window_sums(shape.width, shape.out_width, shape);
  const std::int64_t pixel =
      shape.images * shape.channels * static_cast<std::int64_t>(sizeof(T));  // of all images
  return {
      count_traffic(typed<T>("MaxPoolForward"), MaxPoolForward<T>{x.data(), y.data(), shape},
                    {reads("x", x, pixel * rows.sizes * columns.sizes,
                           "once per window that contains the pixel"),
                     writes("y", y)}),
      count_traffic(
          typed<T>("MaxPoolBackward"), MaxPoolBackward<T>{x.data(), y.data(), dx.data(), shape},
          {reads("x", x, pixel * rows.squares * columns.squares,
                 "once per pair of a window that contains the pixel and a pixel of the window"),
           reads("dy", y, pixel * rows.sizes * columns.sizes, "once per pixel of its window"),
           writes("dx", dx)}),
  };
}

template <class T>
std::vector<Traffic> dropout() {
  constexpr std::int64_t images = 4, channels = 512;
  const Tensor<T> x(images * channels), y(images * channels);
  const Tensor<std::uint32_t> step(1);
  // A thread reads and writes four consecutive elements, each with a separate access.
  return {count_traffic(
      typed<T>("Dropout"),
      Dropout<T>{x.data(), y.data(), {1, 2, 3, 0, 1, 0, step.data()}, images, 1, channels},
      {strided(reads("from", x, x.bytes(), "uncoalesced"), 4), strided(writes("to", y), 4),
       table("mask.step", step, images * channels / 4 * 4)})};
}

template <class T>
std::vector<Traffic> flatten() {
  constexpr std::int64_t images = 2, pixels = 4, channels = 64;
  const Tensor<T> map(images * pixels * channels);
  const Tensor<float> vector(images * pixels * channels);
  // The threads of a warp access eight channels of four pixels.
  const double ratio = sizeof(T) == 2 ? 2 : 1;
  return {
      count_traffic(
          typed<T>("FlattenForward"),
          FlattenForward<T>{map.data(), vector.data(), images, pixels, channels},
          {strided(reads("x", map, map.bytes(), "uncoalesced"), ratio), writes("y", vector)}),
      count_traffic(typed<T>("FlattenBackward"),
                    FlattenBackward<T>{vector.data(), map.data(), images, pixels, channels},
                    {reads("dy", vector), strided(writes("dx", map), ratio)}),
  };
}

template <class T>
std::vector<Traffic> channel_sums() {
  constexpr std::int64_t rows = 256, channels = 64;
  const std::int64_t slabs = slabs_with_one_row_per_thread<T>(rows, channels);
  const Tensor<T> x(rows * channels);
  const Tensor<float> partial(slabs * channels);
  return {count_traffic(typed<T>("ChannelSlabSums"),
                        ChannelSlabSums<T>{x.data(), partial.data(), rows, channels, slabs},
                        {reads("x", x), writes("partial", partial)})};
}

std::vector<Traffic> without_type() {
  constexpr std::int64_t slabs = 512, channels = 64, rows = 64, classes = 16;
  const Tensor<float> partial(slabs * channels), sums(channels);
  const Tensor<float> logits(rows * classes), gradients(rows * classes), scale(1);
  const Tensor<std::int32_t> labels(rows), source(rows), hits(rows);
  const Tensor<double> losses(rows);
  const Tensor<DeviceResult> result(1);
  return {
      count_traffic("ChannelTotals", ChannelTotals{partial.data(), sums.data(), channels, slabs},
                    {strided(reads("partial", partial, partial.bytes(), "uncoalesced"), 8),
                     strided(writes("sums", sums), 8)}),
      count_traffic(
          "SoftmaxCrossEntropy",
          SoftmaxCrossEntropy{logits.data(), labels.data(), source.data(), scale.data(),
                              losses.data(), hits.data(), gradients.data(), rows, rows, classes, 0},
          {strided(reads("logits", logits, 5 * logits.bytes() + rows * 4, "five times"), 1.1),
           writes("gradients", gradients), strided(writes("losses", losses), 4),
           strided(writes("hits", hits), 8), table("labels", labels, rows * 4),
           table("source", source, rows * 4), table("loss_scale", scale, rows * 4)}),
      count_traffic(
          "SumResults", SumResults{losses.data(), hits.data(), result.data(), rows},
          {reads("losses", losses), reads("hits", hits), strided(writes("result", result), 4)}),
  };
}

}  // namespace

std::vector<Traffic> network_cases() {
  std::vector<Traffic> all = without_type();
  append(all, elementwise<float>(), elementwise<core::BFloat16>(), elementwise<Float16>());
  append(all, images<float>(), images<core::BFloat16>(), images<Float16>());
  append(all, average_pooling<float>(), average_pooling<core::BFloat16>(),
         average_pooling<Float16>());
  append(all, max_pooling<float>(), max_pooling<core::BFloat16>(), max_pooling<Float16>());
  append(all, dropout<float>(), dropout<core::BFloat16>(), dropout<Float16>());
  append(all, flatten<float>(), flatten<core::BFloat16>(), flatten<Float16>());
  append(all, channel_sums<float>(), channel_sums<core::BFloat16>(), channel_sums<Float16>());
  return all;
}

}  // namespace lockstep::backend::cuda::kernels::test
