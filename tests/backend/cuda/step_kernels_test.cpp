// SPDX-License-Identifier: BSD-3-Clause
// Tests the arithmetic of the CUDA kernels that process the parameters, on the host: conversion
// between flat buffers and native tensors, SGD update, clipping, loss scaling.

#include <array>

#include "backend/cuda/kernels/gradient_scaling.hpp"
#include "backend/cuda/kernels/update.hpp"
#include "kernels.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

template <class T>
constexpr core::DataType type_of = std::is_same_v<T, float>            ? core::DataType::float32
                                   : std::is_same_v<T, core::BFloat16> ? core::DataType::bfloat16
                                                                       : core::DataType::float16;

/// Four parameters with all kinds of native tensors. In the flat buffers they are in another order
/// than in `table`, with gaps between them.
template <class T>
struct Model {
  static constexpr std::int64_t flat_elements = 4096;
  static constexpr core::DataType type = type_of<T>;

  Model()
      : weights(poisoned<T>(2500)),
        padded_weights(poisoned<T>(9 * 8)),
        gradients(random_values<T>(2500, 51)),
        padded_gradients(random_values<float>(9 * 8, 52)),
        plain_gradients(random_values<float>(40, 53)),
        parameters(random_values<float>(flat_elements, 54)),
        velocity(random_values<float>(flat_elements, 55)) {
    table = {{.flat = 1536,
              .elements = 2500,
              .channels = 50,
              .weight = {weights.data(), type},
              .gradient = {gradients.data(), type}},
             {.flat = 16,
              .elements = 27,
              .channels = 3,
              .weight = {padded_weights.data(), type, 5},
              .gradient = {padded_gradients.data(), core::DataType::float32, 5}},
             {.flat = 1024, .elements = 40, .gradient = {plain_gradients.data()}},
             {.flat = 64, .elements = 21}};
  }

  /// Calls work(index of the parameter, index in the flat buffers, index in the native tensor) for
  /// each element of each parameter.
  template <class Work>
  void for_each(Work&& work) const {
    for (std::size_t p = 0; p < table.size(); ++p) {
      for (std::int64_t i = 0; i < table[p].elements; ++i) {
        const std::int64_t native = p == 1 ? i / 3 * 8 + i % 3 : i;
        work(p, size(table[p].flat + i), size(native));
      }
    }
  }

  std::vector<T> weights, padded_weights, gradients;
  std::vector<float> padded_gradients, plain_gradients, parameters, velocity;
  std::vector<NativeParameter> table;
};

TEST(CudaSegments, CoverEachElementOnceAndRespectCuts) {
  const Model<float> model;
  for (const std::vector<std::int64_t>& cuts :
       {std::vector<std::int64_t>{}, {1600, 1601, 3000}, {0, 30, 1536, 4096}}) {
    const auto segments = make_segments(model.table, cuts);
    std::vector<int> seen(Model<float>::flat_elements);
    std::int64_t end = 0;
    for (const Segment& segment : segments) {
      EXPECT_GE(segment.flat, end);
      EXPECT_GE(segment.count, 1);
      EXPECT_LE(segment.count, 1024);
      end = segment.flat + segment.count;
      for (const std::int64_t cut : cuts) EXPECT_FALSE(segment.flat < cut && cut < end);
      for (std::int64_t i = segment.flat; i < end; ++i) ++seen[size(i)];
    }
    model.for_each([&](std::size_t, std::size_t flat, std::size_t) { --seen[flat]; });
    EXPECT_EQ(std::ranges::count(seen, 0), Model<float>::flat_elements);
  }
}

TEST(CudaSegments, APartHoldsTheSegmentsOfABucket) {
  const Model<float> model;
  const std::array<std::int64_t, 1> cuts = {1600};
  const auto segments = make_segments(model.table, cuts);
  const SegmentTable all{segments.data(), static_cast<std::int64_t>(segments.size())};
  const SegmentTable front = part_of(all, segments, 0, 1600);
  const SegmentTable back = part_of(all, segments, 1600, 4096);
  EXPECT_EQ(front.segments, segments.data());
  EXPECT_EQ(back.segments, front.segments + front.size);
  EXPECT_EQ(front.size + back.size, all.size);
  EXPECT_EQ(back.segments->flat, 1600);
  EXPECT_EQ(part_of(all, segments, 1100, 1500).size, 0);
  EXPECT_THROW(part_of(all, segments, 0, 1700), core::Error);
  EXPECT_THROW(part_of(all, segments, 20, 4096), core::Error);
}

TEST(CudaSegments, RefuseBrokenRowsAndUnalignedParameters) {
  const std::array<NativeParameter, 1> broken = {
      NativeParameter{.flat = 0, .elements = 10, .channels = 3}};
  EXPECT_THROW(make_segments(broken), core::Error);
  const std::array<NativeParameter, 1> unaligned = {NativeParameter{.flat = 2, .elements = 10}};
  EXPECT_THROW(make_segments(unaligned), core::Error);
}

// Only a segment that begins at a cut may be unaligned, because its accesses are slow.
TEST(CudaSegments, AreAlignedAfterACut) {
  const std::array<NativeParameter, 1> one = {NativeParameter{.flat = 64, .elements = 5000}};
  const std::array<std::int64_t, 1> cuts = {1101};
  int unaligned = 0;
  for (const Segment& segment : make_segments(one, cuts)) {
    if (segment.first % 4 == 0 && segment.flat % 4 == 0) continue;
    EXPECT_EQ(segment.flat, 1101);
    ++unaligned;
  }
  EXPECT_EQ(unaligned, 1);
}

SegmentTable table_of(const std::vector<Segment>& segments) {
  return {segments.data(), std::ssize(segments)};
}

template <class T>
class CudaStep : public ::testing::Test {};
TYPED_TEST_SUITE(CudaStep, ActivationTypes, ActivationTypeNames);

template <class W, class T>
void check_flush() {
  Model<T> model;
  const auto segments = make_segments(model.table);
  auto flat = poisoned<W>(Model<T>::flat_elements);
  auto want = flat;
  model.for_each([&](std::size_t p, std::size_t at, std::size_t native) {
    if (p == 0) narrow(widen(model.gradients[native]), want[at]);
    if (p == 1) narrow(model.padded_gradients[native], want[at]);
    if (p == 2) narrow(model.plain_gradients[native], want[at]);
  });
  run_on_host(FlushGradients<W>{table_of(segments), flat.data()});
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(widen(want[i]))) {
      ASSERT_TRUE(std::isnan(widen(flat[i]))) << "element " << i << " was written";
    } else {
      ASSERT_EQ(widen(flat[i]), widen(want[i])) << i;
    }
  }
}

TYPED_TEST(CudaStep, GradientsGoToTheWire) {
  check_flush<float, TypeParam>();
  check_flush<core::BFloat16, TypeParam>();
  check_flush<Float16, TypeParam>();
}

/// Expects that the native copies contain the parameters and that padding was not written.
template <class T>
void expect_native_copies(const Model<T>& model) {
  auto want = poisoned<T>(2500), padded = poisoned<T>(72);
  model.for_each([&](std::size_t p, std::size_t at, std::size_t native) {
    if (p == 0) narrow(model.parameters[at], want[native]);
    if (p == 1) narrow(model.parameters[at], padded[native]);
  });
  expect_same_bits(model.weights, want);
  for (std::size_t i = 0; i < padded.size(); ++i) {
    if (i % 8 < 3) {
      EXPECT_EQ(widen(model.padded_weights[i]), widen(padded[i]));
    } else {
      EXPECT_TRUE(std::isnan(widen(model.padded_weights[i])));
    }
  }
}

TYPED_TEST(CudaStep, NativeCopiesAreRefreshed) {
  Model<TypeParam> model;
  const auto segments = make_segments(model.table);
  run_on_host(RefreshWeights{table_of(segments), model.parameters.data()});
  expect_native_copies(model);
}

/// Gradients of a model in flat form, as they are after an all-reduce in data type W.
template <class W>
std::vector<W> use_flat_gradients(std::vector<NativeParameter>& table, std::int64_t elements) {
  auto gradients = random_values<W>(elements, 60, 0, 64);
  for (NativeParameter& parameter : table)
    parameter.gradient = {gradients.data() + parameter.flat, type_of<W>};
  return gradients;
}

/// Runs an update by the gradients of `table`, in two parts, and expects the results of the other
/// backends for the flat gradients `plain`. The gradients are divided by the loss scale, 128, which
/// is exact.
template <class T>
void expect_update(Model<T>& model, std::vector<float> plain, bool nesterov) {
  const Model<T> before;
  const std::vector<std::int64_t> cuts = {2000, 2501};
  const auto segments = make_segments(model.table, cuts);
  const optim::Coefficients sgd{.learning_rate = 0.05f,
                                .momentum = 0.9f,
                                .weight_decay = 5e-4f,
                                .nesterov = nesterov,
                                .gradient_scale = 0.25f};
  std::vector<float> parameters = before.parameters, velocity = before.velocity;
  for (float& gradient : plain) gradient /= 128;
  optim::update(optim::Kind::sgd, sgd, {parameters, plain, velocity});

  LossScale scale{.scale = 128};
  SgdUpdate update{table_of(segments), model.parameters.data(), model.velocity.data(), &sgd,
                   &scale};
  scale.overflow = 1;
  run_on_host(update);
  EXPECT_EQ(model.parameters, before.parameters);
  EXPECT_EQ(model.velocity, before.velocity);
  scale.overflow = 0;
  update.table = part_of(table_of(segments), segments, 0, 2501);
  run_on_host(update);
  update.table = part_of(table_of(segments), segments, 2501, 4096);
  run_on_host(update);
  std::vector<double> want_parameters = as_double(before.parameters);
  std::vector<double> want_velocity = as_double(before.velocity);
  model.for_each([&](std::size_t, std::size_t at, std::size_t) {
    want_parameters[at] = static_cast<double>(parameters[at]);
    want_velocity[at] = static_cast<double>(velocity[at]);
  });
  expect_close(model.parameters, want_parameters, 0.1);
  expect_close(model.velocity, want_velocity, 0.1);
  expect_native_copies(model);
}

template <class W, class T>
void check_update_by_flat_gradients(bool nesterov) {
  Model<T> model;
  const auto gradients = use_flat_gradients<W>(model.table, Model<T>::flat_elements);
  std::vector<float> plain;
  for (const W& gradient : gradients) plain.push_back(widen(gradient));
  expect_update(model, plain, nesterov);
}

TYPED_TEST(CudaStep, UpdateByReducedGradientsEqualsThatOfTheOtherBackends) {
  for (const bool nesterov : {false, true}) {
    check_update_by_flat_gradients<float, TypeParam>(nesterov);
    check_update_by_flat_gradients<core::BFloat16, TypeParam>(nesterov);
    check_update_by_flat_gradients<Float16, TypeParam>(nesterov);
  }
}

TYPED_TEST(CudaStep, UpdateByNativeGradientsEqualsThatOfTheOtherBackends) {
  Model<TypeParam> model;
  auto last = random_values<float>(21, 62);
  model.table[3].gradient = {last.data()};
  std::vector<float> plain(Model<TypeParam>::flat_elements);
  model.for_each([&](std::size_t p, std::size_t at, std::size_t native) {
    const std::array values{p == 0 ? widen(model.gradients[native]) : 0.0F,
                            p == 1 ? model.padded_gradients[native] : 0.0F,
                            p == 2 ? model.plain_gradients[native] : 0.0F,
                            p == 3 ? last[native] : 0.0F};
    plain[at] = values[p];
  });
  expect_update(model, plain, true);
}

/// One parameter of `gradients.size()` elements in a separate table.
template <class W>
std::vector<Segment> segments_of(std::vector<W>& gradients) {
  const std::array<NativeParameter, 1> one = {NativeParameter{
      .elements = std::ssize(gradients), .gradient = {gradients.data(), type_of<W>}}};
  return make_segments(one);
}

// The gradients are multiples of 2^-11 times the loss scale, so dividing by it is exact.
TYPED_TEST(CudaStep, ClippingFactorEqualsThatOfTheOtherBackends) {
  using W = TypeParam;
  for (const std::int64_t n : {1, 8, 29, 5003, 2000000}) {
    auto gradients = random_values<W>(n, 80, 0, 64);
    const auto segments = segments_of(gradients);
    std::vector<float> plain;
    for (const W& gradient : gradients) plain.push_back(widen(gradient) / 128);
    const optim::Coefficients coefficients{.gradient_scale = 0.25F};
    LossScale scale{.scale = 128};
    for (const double max_norm : {0.01, 1e6}) {
      GradientClipping clipping;
      run_on_host(GradientSquares{table_of(segments), &clipping});
      run_on_host(ClippingFactor{&clipping, &coefficients, &scale, max_norm});
      EXPECT_NEAR(clipping.factor, optim::clipping_factor(max_norm, 0.25F, plain),
                  1e-6F * clipping.factor);
      EXPECT_EQ(clipping.factor == 1.0F, max_norm == 1e6);
      EXPECT_EQ(scale.overflow, 0);
    }
  }
}

// Padding of a native gradient, which the operations may leave with any value, is not read.
TYPED_TEST(CudaStep, PaddingDoesNotCountForTheNorm) {
  using W = TypeParam;
  auto gradients = poisoned<W>(9 * 8);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i % 8 < 3) narrow(2.0F, gradients[i]);
  }
  const std::array<NativeParameter, 1> padded = {NativeParameter{
      .elements = 27, .channels = 3, .gradient = {gradients.data(), type_of<W>, 5}}};
  const auto segments = make_segments(padded);
  GradientClipping clipping;
  run_on_host(GradientSquares{table_of(segments), &clipping});
  double squares = 0;
  for (const double part : clipping.squares) squares += part;
  EXPECT_EQ(squares, 27 * 4);
}

TYPED_TEST(CudaStep, UpdateAppliesTheClippingFactor) {
  Model<TypeParam> clipped, scaled;
  const float half = 0.5F;
  optim::Coefficients coefficients{
      .learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 0, .gradient_scale = 0.25F};
  for (auto [model, factor] : {std::pair{&clipped, &half}, {&scaled, nullptr}}) {
    const auto gradients = use_flat_gradients<float>(model->table, Model<TypeParam>::flat_elements);
    const auto segments = make_segments(model->table);
    if (factor == nullptr) coefficients.gradient_scale *= half;
    run_on_host(SgdUpdate{table_of(segments), model->parameters.data(), model->velocity.data(),
                          &coefficients, nullptr, factor});
  }
  EXPECT_EQ(clipped.parameters, scaled.parameters);
  EXPECT_EQ(clipped.velocity, scaled.velocity);
}

// Without clipping, the limit of the norm is infinite.
TYPED_TEST(CudaStep, DetectsAnOverflowAtAnyPosition) {
  using W = TypeParam;
  for (const std::int64_t n : {1, 8, 29}) {
    auto gradients = random_values<W>(n, 70);
    const auto segments = segments_of(gradients);
    const optim::Coefficients coefficients;
    for (const float max_norm : {1.0F, infinity}) {
      const auto overflows = [&] {
        GradientClipping clipping;
        LossScale scale;
        run_on_host(GradientSquares{table_of(segments), &clipping});
        run_on_host(ClippingFactor{&clipping, &coefficients, &scale, max_norm});
        return scale.overflow == 1;
      };
      EXPECT_FALSE(overflows());
      for (const float bad : {infinity, -infinity, std::nanf("")}) {
        for (W& gradient : gradients) {
          const W before = gradient;
          narrow(bad, gradient);
          EXPECT_TRUE(overflows());
          gradient = before;
        }
      }
    }
  }
}

TEST(CudaLossScale, HalvesOnOverflowAndDoublesAfterGoodSteps) {
  LossScale state{.scale = 4, .overflow = 1, .dynamic = 1};
  const auto step = [&](bool overflows) {
    state.overflow = overflows ? 1 : 0;
    run_on_host(LossScaleUpdate{&state});
    EXPECT_EQ(state.overflow, 0);
  };
  step(true);
  EXPECT_EQ(state.scale, 2);
  EXPECT_EQ(state.skipped, 1);
  for (int i = 0; i < 1999; ++i) step(false);
  EXPECT_EQ(state.scale, 2);
  EXPECT_EQ(state.good_steps, 1999);
  step(false);
  EXPECT_EQ(state.scale, 4);
  EXPECT_EQ(state.good_steps, 0);
  step(false);
  for (int i = 0; i < 5; ++i) step(true);
  EXPECT_EQ(state.scale, 1);
  EXPECT_EQ(state.good_steps, 0);
  EXPECT_EQ(state.skipped, 6);
  state.scale = largest_loss_scale * 0.75f;
  for (int i = 0; i < 2000; ++i) step(false);
  EXPECT_EQ(state.scale, 67108864);
}

TEST(CudaLossScale, StaysWhereItIsNotDynamic) {
  LossScale state{.scale = 512, .overflow = 1, .dynamic = 0};
  run_on_host(LossScaleUpdate{&state});
  EXPECT_EQ(state.skipped, 1);
  for (int i = 0; i < 2000; ++i) run_on_host(LossScaleUpdate{&state});
  EXPECT_EQ(state.scale, 512);
}

}  // namespace
}  // namespace lockstep::backend::cuda::kernels::test
