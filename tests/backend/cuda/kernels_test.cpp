// SPDX-License-Identifier: BSD-3-Clause
// Tests the arithmetic of the CUDA kernels on the host: number formats, integer division, teams of
// threads, images, pooling, elementwise operations.

#include "kernels.hpp"

#include "backend/cuda/kernels/difference.hpp"
#include "backend/cuda/kernels/dropout.hpp"
#include "backend/cuda/kernels/elementwise.hpp"
#include "backend/cuda/kernels/layout.hpp"
#include "backend/cuda/kernels/pooling.hpp"
#include "backend/cuda/kernels/slabs.hpp"
#include "lockstep/data/loader.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

TEST(Division, IsExactIn32And64Bits) {
  const std::int64_t large = (std::int64_t{1} << 40) + 12345;
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{41}, std::int64_t{0xffffffff},
                                   std::int64_t{0x100000000}, large}) {
    for (const std::int64_t by :
         {std::int64_t{1}, std::int64_t{7}, std::int64_t{0xffffffff}, std::int64_t{0x100000001}}) {
      EXPECT_EQ(divide(value, by).quotient, value / by);
      EXPECT_EQ(divide(value, by).remainder, value % by);
    }
  }
}

template <int team>
void expect_team_adds_all() {
  for (const std::int64_t n : {0, 1, 31, 32, 33, 255, 257, 1000}) {
    const auto square = [](std::int64_t i) { return (i + 1) * (i + 1); };
    EXPECT_EQ((team_sum<team, std::int64_t>(n, square)), n * (n + 1) * (2 * n + 1) / 6);
    std::int64_t seen = 0;
    team_for<team>(n, [&](std::int64_t i) { seen += square(i); });
    EXPECT_EQ(seen, n * (n + 1) * (2 * n + 1) / 6);
  }
}

TEST(Team, TakesEveryElementOnce) {
  expect_team_adds_all<32>();
  expect_team_adds_all<256>();
}

template <class T>
class CudaKernels : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernels, ActivationTypes, ActivationTypeNames);

TYPED_TEST(CudaKernels, ReluAndAdditionTakeEverySize) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 7, 8, 29, 64}) {
    const auto a = random_values<T>(n, 1), b = random_values<T>(n, 2);
    const auto wide_a = as_double(a), wide_b = as_double(b);
    std::vector<double> relu, gradient, gradients, sum;
    for (std::size_t i = 0; i < a.size(); ++i) {
      relu.push_back(std::max(wide_a[i], 0.0));
      gradient.push_back(wide_a[i] > 0 ? wide_b[i] : 0);
      gradients.push_back(wide_a[i] > 0 ? wide_b[i] + wide_a[i] : 0);
      sum.push_back(wide_a[i] + wide_b[i]);
    }
    auto y = poisoned<T>(n);
    run_on_host(ReluForward<T>{a.data(), y.data(), n});
    expect_close(y, relu);
    auto dx = poisoned<T>(n);
    run_on_host(ReluBackward<T>{b.data(), nullptr, y.data(), dx.data(), n});
    expect_close(dx, gradient);
    dx = poisoned<T>(n);
    run_on_host(ReluBackward<T>{b.data(), a.data(), y.data(), dx.data(), n});
    expect_close(dx, gradients);
    auto c = poisoned<T>(n);
    run_on_host(Add<T>{a.data(), b.data(), c.data(), n});
    expect_close(c, sum);
    auto in_place = a;
    run_on_host(Add<T>{in_place.data(), b.data(), in_place.data(), n});
    expect_close(in_place, sum);
  }
}

TEST(Philox, GivesTheNumbersOfTheHost) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    const auto want = core::philox4x32({i, 0xffffffffu - i, 7 * i, 3}, {i + 1, 0x80000000u});
    const PhiloxBlock got = philox4x32({{i, 0xffffffffu - i, 7 * i, 3}}, i + 1, 0x80000000u);
    EXPECT_TRUE(std::ranges::equal(got.words, want));
  }
}

TYPED_TEST(CudaKernels, WritesNothingBeyondTheEnd) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 3, 7, 8, 15, 29}) {
    const auto a = random_values<T>(n + 16, 1);
    auto y = poisoned<T>(n + 16);
    run_on_host(ReluForward<T>{a.data(), y.data(), n});
    for (std::int64_t i = 0; i < n + 16; ++i)
      EXPECT_EQ(std::isnan(widen(y[size(i)])), i >= n) << i << " of " << n;
  }
}

TYPED_TEST(CudaKernels, NanGoesThroughRelu) {
  using T = TypeParam;
  auto values = poisoned<T>(3);
  run_on_host(ReluForward<T>{values.data(), values.data(), 3});
  for (const double value : as_double(values)) EXPECT_TRUE(std::isnan(value));
}

struct ImageBatch {
  core::ImageShape shape;
  std::int64_t images;
  std::vector<std::uint8_t> pixels;
};

ImageBatch random_images(core::ImageShape shape, std::int64_t images) {
  core::Random random(3, core::RandomStream::test);
  ImageBatch batch{shape, images, std::vector<std::uint8_t>(size(images * shape.elements()))};
  for (auto& pixel : batch.pixels) pixel = static_cast<std::uint8_t>(random.below(256));
  return batch;
}

constexpr float means[3] = {0.4914f, 0.4822f, 0.4465f};
constexpr float deviations[3] = {0.2023f, 0.1994f, 0.2010f};

template <class T>
NormaliseImages<T> normaliser(const ImageBatch& from, std::int64_t padded, std::vector<T>& y) {
  const core::ImageShape& shape = from.shape;
  return {from.pixels.data(),
          nullptr,
          nullptr,
          y.data(),
          from.images,
          shape.channels,
          shape.height,
          shape.width,
          padded,
          {means[0], means[1], means[2]},
          {deviations[0], deviations[1], deviations[2]}};
}

/// Returns the images normalised with the formula of the other backends in float32, rounded to T.
/// The kernel must give the same bits.
template <class T>
std::vector<T> normalised_images(const ImageBatch& from, std::int64_t padded) {
  const core::ImageShape& shape = from.shape;
  const std::int64_t pixels = shape.pixels();
  std::vector<T> y(size(from.images * pixels * padded));
  for (std::int64_t i = 0; i < from.images; ++i) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const std::int64_t known = std::min<std::int64_t>(c, 2);
      for (std::int64_t p = 0; p < pixels; ++p) {
        const std::uint8_t byte = from.pixels[size((i * shape.channels + c) * pixels + p)];
        narrow((static_cast<float>(byte) / 255.0f - means[known]) / deviations[known],
               y[size((i * pixels + p) * padded + c)]);
      }
    }
  }
  return y;
}

TYPED_TEST(CudaKernels, ImagesAreNormalisedAndPadded) {
  using T = TypeParam;
  for (const std::int64_t channels : {1, 3, 5, 11}) {
    for (const std::int64_t padded : {channels, channels + 1, (channels + 7) / 8 * 8}) {
      const ImageBatch batch = random_images({.channels = channels, .height = 5, .width = 7}, 3);
      auto y = poisoned<T>(3 * 35 * padded);
      run_on_host(normaliser(batch, padded, y));
      expect_same_bits(y, normalised_images<T>(batch, padded));
    }
  }
}

TYPED_TEST(CudaKernels, ReadsImagesByIndex) {
  using T = TypeParam;
  const ImageBatch stored = random_images({.channels = 3, .height = 4, .width = 3}, 5);
  const std::vector<std::int32_t> source = {4, 0, 4, 2};
  ImageBatch wanted{stored.shape, 4, {}};
  const auto bytes = static_cast<std::ptrdiff_t>(stored.shape.elements());
  for (const std::int32_t i : source) {
    wanted.pixels.insert(wanted.pixels.end(), stored.pixels.begin() + i * bytes,
                         stored.pixels.begin() + (i + 1) * bytes);
  }
  auto y = poisoned<T>(4 * 12 * 8);
  NormaliseImages<T> kernel = normaliser(stored, 8, y);
  kernel.images = 4;
  kernel.source = source.data();
  run_on_host(kernel);
  expect_same_bits(y, normalised_images<T>(wanted, 8));
}

TYPED_TEST(CudaKernels, CropsAndFlipsEqualThoseOfTheLoader) {
  using T = TypeParam;
  constexpr std::int64_t images = 200;  // 9 x 9 offsets, mirrored or not: 162 different crops
  const ImageBatch stored = random_images({.channels = 3, .height = 6, .width = 5}, images);
  ImageBatch wanted = stored;
  std::vector<core::CropFlip> crops;
  const std::size_t bytes = size(stored.shape.elements());
  for (std::uint32_t sample = 0; sample < images; ++sample) {
    data::augment(data::Augmentation::crop_flip, stored.shape,
                  std::span(stored.pixels).subspan(sample * bytes, bytes),
                  std::span(wanted.pixels).subspan(sample * bytes, bytes), 7, 2, sample);
    core::Random random(7, core::RandomStream::augmentation, 2, sample);
    const auto dy = static_cast<std::int8_t>(static_cast<int>(random.below(9)) - 4);
    const auto dx = static_cast<std::int8_t>(static_cast<int>(random.below(9)) - 4);
    crops.push_back({dy, dx, static_cast<std::uint8_t>(random.bits() & 1u)});
  }
  auto y = poisoned<T>(images * 30 * 8);
  NormaliseImages<T> kernel = normaliser(stored, 8, y);
  kernel.crops = crops.data();
  run_on_host(kernel);
  expect_same_bits(y, normalised_images<T>(wanted, 8));
}

TYPED_TEST(CudaKernels, AveragePool) {
  using T = TypeParam;
  for (const std::int64_t channels : {5, 16}) {
    const std::int64_t images = 3, pixels = 12;
    const auto x = random_values<T>(images * pixels * channels, 4);
    const auto dy = random_values<float>(images * channels, 5);
    std::vector<double> want(size(images * channels)), want_dx(x.size());
    for (std::int64_t i = 0; i < images * pixels * channels; ++i) {
      const std::size_t out = size(i / channels / pixels * channels + i % channels);
      want[out] += as_double(x)[size(i)] / 12;
      want_dx[size(i)] = static_cast<double>(dy[out]) / 12;
    }
    auto y = poisoned<float>(images * channels);
    run_on_host(AveragePoolForward<T>{x.data(), y.data(), images, pixels, channels});
    expect_close(y, want);
    auto dx = poisoned<T>(images * pixels * channels);
    run_on_host(AveragePoolBackward<T>{dy.data(), dx.data(), images, pixels, channels});
    expect_close(dx, want_dx);
  }
}

struct Pooled {
  std::vector<double> y, dx;
};

Pooled max_pool(const MaxPoolShape& s, const std::vector<double>& x,
                const std::vector<double>& dy) {
  Pooled result{{}, std::vector<double>(x.size())};
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t p = 0; p < s.out_height; ++p) {
      for (std::int64_t q = 0; q < s.out_width; ++q) {
        for (std::int64_t c = 0; c < s.channels; ++c) {
          double largest = -std::numeric_limits<double>::infinity();
          std::size_t winner = 0;
          for (std::int64_t i = 0; i < s.kernel * s.kernel; ++i) {
            const std::int64_t h = p * s.stride - s.padding + i / s.kernel;
            const std::int64_t w = q * s.stride - s.padding + i % s.kernel;
            if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
            const std::size_t at = size(((n * s.height + h) * s.width + w) * s.channels + c);
            if (x[at] > largest) {
              largest = x[at];
              winner = at;
            }
          }
          result.dx[winner] += dy[result.y.size()];
          result.y.push_back(largest);
        }
      }
    }
  }
  return result;
}

TYPED_TEST(CudaKernels, MaxPoolGivesTheGradientToTheFirstWinner) {
  using T = TypeParam;
  struct Window {
    std::int64_t kernel, stride, padding;
  };
  for (const std::int64_t channels : {3, 8}) {
    for (const Window w :
         {Window{3, 2, 1}, Window{2, 2, 0}, Window{3, 1, 1}, Window{2, 3, 0}, Window{5, 2, 2}}) {
      const MaxPoolShape shape{2,
                               9,
                               7,
                               channels,
                               (9 + 2 * w.padding - w.kernel) / w.stride + 1,
                               (7 + 2 * w.padding - w.kernel) / w.stride + 1,
                               w.kernel,
                               w.stride,
                               w.padding};
      const std::int64_t inputs = 2 * 9 * 7 * channels;
      const std::int64_t outputs = 2 * shape.out_height * shape.out_width * channels;
      auto x = random_values<T>(inputs, 6);
      for (T& value : x) narrow(std::round(widen(value)), value);  // so that many values are equal
      const auto dy = random_values<T>(outputs, 7);
      const Pooled want = max_pool(shape, as_double(x), as_double(dy));
      auto y = poisoned<T>(outputs);
      run_on_host(MaxPoolForward<T>{x.data(), y.data(), shape});
      expect_close(y, want.y);
      auto dx = poisoned<T>(inputs);
      run_on_host(MaxPoolBackward<T>{x.data(), dy.data(), dx.data(), shape});
      expect_close(dx, want.dx);
    }
  }
}

TYPED_TEST(CudaKernels, MaxPoolKeepsNan) {
  using T = TypeParam;
  for (const std::int64_t channels : {3, 8}) {
    const MaxPoolShape shape{1, 2, 2, channels, 1, 1, 2, 2, 0};
    std::vector<T> x(static_cast<std::size_t>(4 * channels));
    for (T& value : x) narrow(1.0F, value);
    narrow(std::numeric_limits<float>::quiet_NaN(), x.back());  // last pixel, last channel
    auto y = poisoned<T>(channels);
    run_on_host(MaxPoolForward<T>{x.data(), y.data(), shape});
    EXPECT_TRUE(std::isnan(widen(y.back())));
    EXPECT_EQ(widen(y.front()), 1.0F);
  }
}

TYPED_TEST(CudaKernels, SquaredDistance) {
  using T = TypeParam;
  for (const std::int64_t elements : {1, 7, 8, 300, 20'003}) {
    const auto a = random_values<T>(elements, 1), b = random_values<T>(elements, 2);
    std::vector<double> sums(distance_parts, -1);
    for (const T* const other : {b.data(), static_cast<const T*>(nullptr)}) {
      run_on_host(SquaredDistance<T>{a.data(), other, sums.data(), elements});
      double want = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double left = widen(a[i]);
        const double right = other != nullptr ? widen(b[i]) : 0;
        want += (left - right) * (left - right);
      }
      EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), want, 1e-12 * want)
          << elements;  // float64
    }
  }
  std::vector<T> broken(100);
  narrow(std::numeric_limits<float>::quiet_NaN(), broken.back());
  std::vector<double> sums(distance_parts);
  run_on_host(SquaredDistance<T>{broken.data(), nullptr, sums.data(), 100});
  EXPECT_TRUE(std::isnan(std::accumulate(sums.begin(), sums.end(), 0.0)));
}

TYPED_TEST(CudaKernels, ChannelSums) {
  using T = TypeParam;
  // The groups of the last two numbers of channels are more than the threads of a block.
  for (const std::int64_t channels : {5, 16, 301, 2056}) {
    for (const std::int64_t slabs : {1, 7, 300}) {
      const std::int64_t rows = 301;
      const auto x = random_values<T>(rows * channels, 8);
      std::vector<double> want(size(channels));
      for (std::size_t i = 0; i < x.size(); ++i)
        want[i % size(channels)] += static_cast<double>(widen(x[i]));
      auto partial = poisoned<float>(slabs * channels);
      run_on_host(ChannelSlabSums<T>{x.data(), partial.data(), rows, channels, slabs});
      auto sums = poisoned<float>(channels);
      run_on_host(ChannelTotals{partial.data(), sums.data(), channels, slabs});
      expect_close(sums, want, 301);
    }
  }
}

TYPED_TEST(CudaKernels, SlabsAreNeitherEmptyNorSmall) {
  using T = TypeParam;
  for (const std::int64_t rows : {1, 15, 16, 1000, 524288}) {
    for (const std::int64_t channels : {1, 5, 64, 2048}) {
      const std::int64_t slabs = slab_count<T>(rows, channels);
      ASSERT_GE(slabs, 1);
      EXPECT_TRUE(slabs == 1 || rows / slabs >= 16);
      EXPECT_LE(slabs, 8 * 132);  // one per block, so that the second pass reads little
      EXPECT_EQ(slab_rows(0, slabs, rows).begin, 0);
      EXPECT_EQ(slab_rows(slabs - 1, slabs, rows).end, rows);
    }
  }
}

}  // namespace
}  // namespace lockstep::backend::cuda::kernels::test
