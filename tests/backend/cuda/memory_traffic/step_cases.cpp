// SPDX-License-Identifier: BSD-3-Clause
// Memory traffic of the kernels on the flat buffers.

#include "backend/cuda/kernels/difference.hpp"
#include "backend/cuda/kernels/elementwise.hpp"
#include "backend/cuda/kernels/update.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

constexpr std::int64_t elements = 4 * segment_elements;
constexpr std::int64_t groups = elements / group_elements;
/// Bytes of its segment that one thread reads at most; it reads some members twice.
constexpr std::int64_t segment_bytes = 88;

/// Two parameters with native tensors of type T, together `elements`.
template <class T>
struct Parameters {
  Tensor<T> weights{elements};
  Tensor<T> gradients{elements};
  Tensor<Segment> segments{4};

  Parameters() {
    constexpr core::DataType type = std::is_same_v<T, float>            ? core::DataType::float32
                                    : std::is_same_v<T, core::BFloat16> ? core::DataType::bfloat16
                                                                        : core::DataType::float16;
    std::vector<NativeParameter> parameters;
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t first = i * elements / 2;
      parameters.push_back({.flat = first,
                            .elements = elements / 2,
                            .weight = {weights.data() + first, type},
                            .gradient = {gradients.data() + first, type}});
    }
    const std::vector<Segment> table = make_segments(parameters);
    std::copy(table.begin(), table.end(), segments.data());
  }
  SegmentTable table() const { return {segments.data(), 4}; }
};

/// Kernels on native tensors of type T.
template <class T>
std::vector<Traffic> native() {
  const Parameters<T> native;
  const Tensor<float> parameters(elements), velocity(elements), second_moment(elements), factor(1),
      rates(2);
  const Tensor<SegmentSquares> squares(4);
  const Tensor<optim::Coefficients> coefficients(1);
  const Tensor<LossScale> loss_scale(1);
  loss_scale.data()->scale = 1;
  const bool is_documented = std::is_same_v<T, core::BFloat16>;
  const std::string variant = is_documented ? "" : typed<T>("native tensors");
  const auto update = [&](const std::string& name, const auto& kernel,
                          const std::vector<Access>& more) {
    std::vector<Access> accesses{
        updates("parameters", parameters),
        updates("velocity", velocity),
        reads("gradients", native.gradients),
        writes("native weights", native.weights),
        table("segments", native.segments, groups * segment_bytes),
        table("coefficients", coefficients,
              groups * static_cast<std::int64_t>(sizeof(optim::Coefficients))),
        table("loss_scale", loss_scale, groups * 12),
        table("clip_factor", factor, groups * 4)};
    accesses.insert(accesses.end(), more.begin(), more.end());
    return count_traffic(name, kernel, accesses, variant);
  };
  return {
      update("SgdUpdate",
             SgdUpdate{native.table(), parameters.data(), velocity.data(), coefficients.data(),
                       loss_scale.data(), factor.data()},
             {}),
      update("LarsUpdate",
             LarsUpdate{native.table(), parameters.data(), velocity.data(), coefficients.data(),
                        loss_scale.data(), factor.data(), rates.data()},
             {table("local_rates", rates, groups * 4)}),
      update("AdamWUpdate",
             AdamWUpdate{native.table(), parameters.data(), velocity.data(), coefficients.data(),
                         loss_scale.data(), factor.data(), second_moment.data()},
             {updates("second_moment", second_moment)}),
      count_traffic("SegmentSums", SegmentSums{native.table(), parameters.data(), squares.data()},
                    {reads("parameters", parameters), reads("gradients", native.gradients),
                     strided(writes("squares", squares), 4),  // one thread per segment
                     table("segments", native.segments, 2 * groups * segment_bytes)},
                    variant),
      count_traffic("RefreshWeights", RefreshWeights{native.table(), parameters.data()},
                    {reads("parameters", parameters), writes("native weights", native.weights),
                     table("segments", native.segments, groups * segment_bytes)},
                    variant),
  };
}

template <class W>
std::vector<Traffic> flat() {
  const Parameters<core::BFloat16> native;
  const Tensor<W> gradients(elements);
  const Tensor<float> sums(elements);
  return {
      count_traffic(typed<W>("AddGradientsToSums"),
                    AddGradientsToSums<W>{gradients.data(), sums.data(), elements},
                    {updates("sums", sums), reads("gradients", gradients)}),
      count_traffic(typed<W>("AddSumsToGradients"),
                    AddSumsToGradients<W>{sums.data(), gradients.data(), elements},
                    {reads("sums", sums), updates("gradients", gradients)}),
      count_traffic(typed<W>("FlushGradients"), FlushGradients<W>{native.table(), gradients.data()},
                    {reads("native gradients", native.gradients), writes("gradients", gradients),
                     table("segments", native.segments, groups * segment_bytes)})};
}

template <class T>
Traffic squared_distance() {
  constexpr std::int64_t many = distance_parts * 2048;
  const Tensor<T> a(many), b(many);
  const Tensor<double> sums(distance_parts);
  return count_traffic(typed<T>("SquaredDistance"),
                       SquaredDistance<T>{a.data(), b.data(), sums.data(), many},
                       {reads("a", a), reads("b", b),
                        strided(writes("sums", sums), 4)});  // one thread per block writes
}

/// One segment for each partial sum.
Traffic gradient_squares() {
  constexpr std::int64_t many = clipping_parts * segment_elements;
  const Tensor<float> gradients(many);
  const Tensor<Segment> segments(clipping_parts);
  const std::vector<Segment> made = make_segments(
      std::vector<NativeParameter>{{.elements = many, .gradient = {gradients.data()}}});
  std::copy(made.begin(), made.end(), segments.data());
  const Tensor<GradientClipping> clipping(1);
  Access squares = strided(writes("clipping", clipping), 4);
  squares.written = sizeof(GradientClipping::squares);
  return count_traffic("GradientSquares",
                       GradientSquares{{segments.data(), clipping_parts}, clipping.data()},
                       {reads("gradients", gradients), squares,
                        table("segments", segments, many / group_elements * segment_bytes)});
}

Traffic local_rates() {
  const Tensor<ParameterSegments> ranges(2);
  const Tensor<Segment> segments(4);
  const Tensor<SegmentSquares> squares(4);
  const Tensor<optim::Coefficients> coefficients(1);
  const Tensor<LossScale> loss_scale(1);
  const Tensor<float> factor(1), rates(2);
  ranges.data()[0] = {0, 1};
  ranges.data()[1] = {1, 4};
  loss_scale.data()->scale = 1;
  return count_traffic(
      "LocalRates",
      LocalRates{ranges.data(), 2, segments.data(), squares.data(), coefficients.data(),
                 loss_scale.data(), factor.data(), rates.data()},
      // One thread per parameter; the tensors of this case are smaller than sectors.
      {strided(reads("squares", squares), 1.5), strided(reads("ranges", ranges), 4),
       strided(writes("local_rates", rates), 8), table("segments", segments, 2 * 4),
       table("coefficients", coefficients, 2 * 12), table("loss_scale", loss_scale, 2 * 4),
       table("clip_factor", factor, 2 * 4)});
}

std::vector<Traffic> single() {
  const Tensor<optim::Coefficients> coefficients(1);
  const Tensor<LossScale> loss_scale(1);
  const Tensor<GradientClipping> clipping(1);
  Access squares = reads("clipping", clipping);
  squares.read = sizeof(GradientClipping::squares);
  squares.written = sizeof(GradientClipping::factor);
  squares.sector_ratio = 1.01;  // the factor is one sector
  return {
      squared_distance<float>(),
      squared_distance<core::BFloat16>(),
      squared_distance<Float16>(),
      gradient_squares(),
      local_rates(),
      count_traffic(
          "ClippingFactor",
          ClippingFactor{clipping.data(), coefficients.data(), loss_scale.data(), 1},
          {squares, table("coefficients", coefficients, 4), table("loss_scale", loss_scale, 4)}),
      count_traffic("LossScaleUpdate", LossScaleUpdate{loss_scale.data()},
                    {strided(updates("state", loss_scale), 1.6)}),
  };
}

}  // namespace

std::vector<Traffic> step_cases() {
  std::vector<Traffic> all = single();
  append(all, native<float>(), native<core::BFloat16>(), native<Float16>());
  append(all, flat<float>(), flat<core::BFloat16>(), flat<Float16>());
  return all;
}

}  // namespace lockstep::backend::cuda::kernels::test
