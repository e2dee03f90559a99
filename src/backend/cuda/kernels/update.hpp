// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Updates of the parameters on the flat buffers. lockstep/optim/update.hpp defines the formulas;
// the gradients are also divided by the loss scale. The same pass writes the native copy of the
// parameters. Memory traffic of SGD and LARS per parameter: reads 8 bytes (p and v) and the
// gradient, writes 8 bytes and the native copy, in total 20 bytes if gradient and copy are 16-bit,
// 22 if only the copy is, and 20 if both are float32 (there is no copy then). AdamW also reads and
// writes the second moment, 8 bytes. Each thread updates four parameters, with accesses of 16
// bytes, and of 8 bytes for 16-bit tensors.
//
// The local learning rates of LARS are computed as in `optim::local_rate` in two passes: sums of
// squares of each segment, then the rate of each parameter. The order of the additions is fixed, so
// that replicas with equal gradients stay equal. Memory traffic: parameters and gradients are read
// once.

#include <cmath>

#include "gradient_scaling.hpp"

namespace lockstep::backend::cuda::kernels {

/// Multiplies `scale`, the factor of the gradients, by the factors of loss scaling and clipping,
/// which may be null.
LOCKSTEP_HOST_DEVICE inline float scaled(float scale, const LossScale* loss_scale,
                                         const float* clip_factor) {
  if (loss_scale != nullptr) scale /= loss_scale->scale;
  if (clip_factor != nullptr) scale *= *clip_factor;
  return scale;
}

/// What the updates of all optimisers have. Each thread updates one group of the table.
struct UpdateArguments {
  SegmentTable table{};
  float* parameters = nullptr;  ///< flat buffer
  float* velocity = nullptr;    ///< flat buffer
  const optim::Coefficients* coefficients = nullptr;
  const LossScale* loss_scale = nullptr;  ///< null: scale 1, no check for overflow
  const float* clip_factor = nullptr;     ///< one factor of all gradients; null: 1

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.groups(); }
};

/// Updates group `index` by step(coefficients, group, gradient, parameter, velocity), with arrays
/// of `group_elements`. Does nothing if a gradient of the step is not finite
/// (`LossScale::overflow`).
template <class Step>
LOCKSTEP_HOST_DEVICE void update_group(const UpdateArguments& update, std::int64_t index,
                                       const Step& step) {
  const Group group = update.table.group(index);
  if (group.count <= 0) return;
  if (update.loss_scale != nullptr && update.loss_scale->overflow != 0) return;
  const Segment& segment = *group.segment;
  optim::Coefficients coefficients = *update.coefficients;
  coefficients.gradient_scale =
      scaled(coefficients.gradient_scale, update.loss_scale, update.clip_factor);
  coefficients.weight_decay *= segment.decay;
  const std::int64_t flat = segment.flat + group.element;
  float gradient[group_elements], parameter[group_elements], velocity[group_elements];
  // The conversion of a 16-bit gradient waits for its load, so the other loads are issued first.
  load_elements(update.parameters, flat, group.count, parameter);
  load_elements(update.velocity, flat, group.count, velocity);
  load_group(segment.gradient, group, gradient);
  step(coefficients, group, gradient, parameter, velocity);
  store_elements(update.parameters, flat, group.count, parameter);
  store_elements(update.velocity, flat, group.count, velocity);
  if (segment.weight.data != nullptr) store_group(segment.weight, group, parameter);
}

/// Updates parameters and velocity by one step of SGD; leaves both unchanged if a gradient of the
/// step is not finite (`LossScale::overflow`). The gradients are those of the segments: after an
/// all-reduce the flat ones, otherwise the native ones.
/// Memory traffic: reads parameters, velocity, gradients; writes parameters, velocity, native
/// weights; from caches: segments, coefficients, loss_scale, clip_factor.
struct SgdUpdate : UpdateArguments {
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    update_group(*this, index,
                 [](const optim::Coefficients& c, const Group&, const float* gradient,
                    float* parameter, float* v) {
                   for (int lane = 0; lane < group_elements; ++lane) {
                     const float with_decay =
                         c.gradient_scale * gradient[lane] + c.weight_decay * parameter[lane];
                     v[lane] = c.momentum * v[lane] + with_decay;
                     parameter[lane] -= c.learning_rate *
                                        (c.nesterov ? with_decay + c.momentum * v[lane] : v[lane]);
                   }
                 });
  }
};

/// Sums of the squares of the elements of a segment.
struct SegmentSquares {
  double parameters = 0;
  double gradients = 0;
};

/// A parameter in a table of segments: the segments [first, end).
struct ParameterSegments {
  std::int32_t first = 0;
  std::int32_t end = 0;
};

/// Computes the sums of squares of the segments of `table`.
/// Memory traffic: reads parameters, gradients; writes squares; from caches: segments.
struct SegmentSums {
  static constexpr int team = 256;
  static constexpr int resident_blocks = 4;

  SegmentTable table;
  const float* parameters;  ///< flat buffer
  SegmentSquares* squares;  ///< of the segments of `table`

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.size; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t segment) const {
    static_assert(team == segment_groups);
    const auto sum = [&](auto read) {
      return team_sum<team, double>(team, [&](std::int64_t thread) {
        const Group group = table.group(segment * segment_groups + thread);
        double squares_of_group = 0;
        if (group.count <= 0) return squares_of_group;
        float values[group_elements];
        read(group, values);
        for (const float value : values)
          squares_of_group += static_cast<double>(value) * static_cast<double>(value);
        return squares_of_group;
      });
    };
    const double of_parameters = sum([&](const Group& group, float(&values)[group_elements]) {
      load_elements(parameters, group.segment->flat + group.element, group.count, values);
    });
    const double of_gradients = sum([&](const Group& group, float(&values)[group_elements]) {
      load_group(group.segment->gradient, group, values);
    });
    if (team_lane<team>() == 0) squares[segment] = {of_parameters, of_gradients};
  }
};

/// Computes the local rates of parameters from the sums of squares of their segments. Parameters
/// that do not decay have rate 1.
/// Memory traffic: reads squares, ranges; writes local_rates; from caches: segments, coefficients,
/// loss_scale, clip_factor.
struct LocalRates {
  static constexpr int team = 32;

  const ParameterSegments* ranges;  ///< of the parameters
  std::int64_t parameters;          ///< number
  const Segment* segments;          ///< all segments
  const SegmentSquares* squares;    ///< of all segments
  const optim::Coefficients* coefficients;
  const LossScale* loss_scale;         ///< null: scale 1
  const float* clip_factor = nullptr;  ///< null: 1
  float* local_rates = nullptr;        ///< of the parameters

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return parameters; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t parameter) const {
    const ParameterSegments range = ranges[parameter];
    const auto norm = [&](double SegmentSquares::*squares_of) {
      return std::sqrt(team_sum<team, double>(range.end - range.first, [&](std::int64_t i) {
        return squares[range.first + i].*squares_of;
      }));
    };
    const double weight = norm(&SegmentSquares::parameters);
    const auto scale = scaled(coefficients->gradient_scale, loss_scale, clip_factor);
    const double gradient = static_cast<double>(scale) * norm(&SegmentSquares::gradients);
    if (team_lane<team>() != 0) return;
    const bool is_adapted = segments[range.first].decay != 0 && weight != 0 && gradient != 0;
    const auto decay = static_cast<double>(coefficients->weight_decay);
    const double rate =
        static_cast<double>(coefficients->trust) * weight / (gradient + decay * weight);
    local_rates[parameter] = is_adapted ? static_cast<float>(rate) : 1.0f;
  }
};

/// As `SgdUpdate`, by LARS with the local rates of the parameters (`LocalRates`).
/// Memory traffic: reads parameters, velocity, gradients; writes parameters, velocity, native
/// weights; from caches: segments, coefficients, loss_scale, clip_factor, local_rates.
struct LarsUpdate : UpdateArguments {
  const float* local_rates = nullptr;  ///< by `Segment::parameter`

  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    update_group(*this, index,
                 [&](const optim::Coefficients& c, const Group& group, const float* gradient,
                     float* parameter, float* v) {
                   const float rate = c.learning_rate * local_rates[group.segment->parameter];
                   for (int lane = 0; lane < group_elements; ++lane) {
                     const float with_decay =
                         c.gradient_scale * gradient[lane] + c.weight_decay * parameter[lane];
                     v[lane] = c.momentum * v[lane] + rate * with_decay;
                     parameter[lane] -= v[lane];
                   }
                 });
  }
};

/// Returns 1 - beta^step with the relative precision of float32, also if beta is close to 1.
/// `log_beta`: the logarithm of beta.
LOCKSTEP_HOST_DEVICE inline float bias_correction(double log_beta, std::int32_t step) {
  return -expm1f(static_cast<float>(log_beta) * static_cast<float>(step));
}

/// As `SgdUpdate`, by AdamW, whose first moment is the velocity; also updates the second moment.
/// Steps that were skipped do not count for the bias correction.
/// Memory traffic: reads parameters, velocity, gradients, second_moment; writes parameters,
/// velocity, native weights, second_moment; from caches: segments, coefficients, loss_scale,
/// clip_factor.
struct AdamWUpdate : UpdateArguments {
  float* second_moment = nullptr;  ///< flat buffer

  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    update_group(*this, index,
                 [&](const optim::Coefficients& c, const Group& group, const float* gradient,
                     float* parameter, float* v) { step(c, group, gradient, parameter, v); });
  }

 private:
  LOCKSTEP_HOST_DEVICE void step(const optim::Coefficients& c, const Group& group,
                                 const float* gradient, float* parameter, float* m) const {
    constexpr auto beta1 = static_cast<float>(optim::AdamW::beta1);
    constexpr auto beta2 = static_cast<float>(optim::AdamW::beta2);
    constexpr auto rest1 = static_cast<float>(1 - optim::AdamW::beta1);
    constexpr auto rest2 = static_cast<float>(1 - optim::AdamW::beta2);
    constexpr double log_beta1 = -0.10536051565782628, log_beta2 = -0.0010005003335835344;
    const std::int32_t update =
        static_cast<std::int32_t>(c.step) - (loss_scale != nullptr ? loss_scale->skipped : 0);
    const float rate = c.learning_rate / bias_correction(log_beta1, update);
    const float correction = 1 / std::sqrt(bias_correction(log_beta2, update));
    const float decay = c.learning_rate * c.weight_decay;
    const std::int64_t flat = group.segment->flat + group.element;
    float second[group_elements];
    load_elements(second_moment, flat, group.count, second);
    for (int lane = 0; lane < group_elements; ++lane) {
      const float scaled_gradient = c.gradient_scale * gradient[lane];
      m[lane] = beta1 * m[lane] + rest1 * scaled_gradient;
      second[lane] = beta2 * second[lane] + rest2 * scaled_gradient * scaled_gradient;
      parameter[lane] -=
          decay * parameter[lane] +
          rate * m[lane] / (std::sqrt(second[lane]) * correction + optim::AdamW::epsilon);
    }
    store_elements(second_moment, flat, group.count, second);
  }
};

}  // namespace lockstep::backend::cuda::kernels
