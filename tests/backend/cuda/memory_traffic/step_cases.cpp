// Memory traffic of the kernels on the flat buffers.

#include "backend/cuda/kernels/gradient_clipping.hpp"
#include "backend/cuda/kernels/loss_scale.hpp"
#include "backend/cuda/kernels/segments.hpp"
#include "backend/cuda/kernels/sgd.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

constexpr std::int64_t elements = 4 * segment_elements;
constexpr std::int64_t segment_bytes = 48;  ///< read by one thread

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
                            .weight = weights.data() + first,
                            .weight_type = type,
                            .gradient = gradients.data() + first,
                            .gradient_type = type});
    }
    const std::vector<Segment> table = make_segments(parameters);
    std::copy(table.begin(), table.end(), segments.data());
  }
  SegmentTable table() const { return {segments.data(), 4}; }
};

template <class W>
std::vector<Traffic> flat() {
  const Parameters<core::BFloat16> native;
  const Tensor<float> parameters(elements), velocity(elements), factor(1);
  const Tensor<W> gradients(elements), many_gradients(clipping_parts * 256);
  const Tensor<SgdCoefficients> coefficients(1);
  const Tensor<LossScale> loss_scale(1);
  loss_scale.data()->scale = 1;
  const Tensor<GradientClipping> clipping(1);
  Access squares = strided(writes("clipping", clipping), 4);
  squares.written = sizeof(GradientClipping::squares);
  return {
      count_traffic(typed<W>("FlushGradients"), FlushGradients<W>{native.table(), gradients.data()},
                    {reads("native gradients", native.gradients), writes("gradients", gradients),
                     table("segments", native.segments, elements * segment_bytes)}),
      count_traffic(typed<W>("FiniteCheck"),
                    FiniteCheck<W>{gradients.data(), loss_scale.data(), elements},
                    {reads("gradients", gradients)}),
      count_traffic(
          typed<W>("GradientSquares"),
          GradientSquares<W>{many_gradients.data(), clipping.data(), clipping_parts * 256},
          {reads("gradients", many_gradients), squares}),
      count_traffic(
          typed<W>("SgdUpdate"),
          SgdUpdate<W>{native.table(), parameters.data(), velocity.data(), gradients.data(),
                       coefficients.data(), loss_scale.data(), factor.data()},
          {updates("parameters", parameters), updates("velocity", velocity),
           reads("gradients", gradients), writes("native weights", native.weights),
           table("segments", native.segments, elements * segment_bytes),
           table("coefficients", coefficients,
                 elements * static_cast<std::int64_t>(sizeof(SgdCoefficients))),
           table("loss_scale", loss_scale, elements * 8),
           table("clip_factor", factor, elements * 4)}),
  };
}

std::vector<Traffic> without_type() {
  const Parameters<core::BFloat16> native;
  const Tensor<float> parameters(elements);
  const Tensor<SgdCoefficients> coefficients(1);
  const Tensor<LossScale> loss_scale(1);
  const Tensor<std::uint32_t> step(1);
  const Tensor<GradientClipping> clipping(1);
  Access squares = reads("clipping", clipping);
  squares.read = sizeof(GradientClipping::squares);
  squares.written = sizeof(GradientClipping::factor);
  squares.sector_ratio = 1.01;  // the factor is one sector
  return {
      count_traffic("RefreshWeights", RefreshWeights{native.table(), parameters.data()},
                    {reads("parameters", parameters), writes("native weights", native.weights),
                     table("segments", native.segments, elements * segment_bytes)}),
      count_traffic(
          "ClippingFactor",
          ClippingFactor{clipping.data(), coefficients.data(), loss_scale.data(), 1},
          {squares, table("coefficients", coefficients, 4), table("loss_scale", loss_scale, 4)}),
      count_traffic("SetCoefficients", SetCoefficients{{}, coefficients.data()},
                    {strided(writes("to", coefficients), 1.6)}),
      count_traffic("SetStep", SetStep{1, step.data()}, {strided(writes("to", step), 8)}),
      count_traffic("LossScaleUpdate", LossScaleUpdate{loss_scale.data()},
                    {strided(updates("state", loss_scale), 1.6)}),
  };
}

}  // namespace

std::vector<Traffic> step_cases() {
  std::vector<Traffic> all = without_type();
  append(all, flat<float>(), flat<core::BFloat16>(), flat<Float16>());
  return all;
}

}  // namespace lockstep::backend::cuda::kernels::test
