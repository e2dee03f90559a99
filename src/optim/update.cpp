// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/optim/update.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/core/error.hpp"

namespace lockstep::optim {

namespace {

// Elements that one thread processes at a time. Four arrays of 64 KiB fit in an L2 cache, and
// the cost of scheduling a chunk is small compared with the time to process it.
constexpr std::size_t chunk = 16384;

// The buffers of the following functions do not overlap. Baseline SSE2 code already reaches the
// memory bandwidth. Without fused multiply-add the results are bitwise identical on all x86-64
// hosts, so replicas on different hosts stay equal.

template <bool nesterov>
void sgd(const Coefficients c, float* __restrict parameters, const float* __restrict gradients,
         float* __restrict velocity, std::size_t size) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const float gradient = c.gradient_scale * gradients[i] + c.weight_decay * parameters[i];
    const float v = c.momentum * velocity[i] + gradient;
    velocity[i] = v;
    parameters[i] -= c.learning_rate * (nesterov ? gradient + c.momentum * v : v);
  }
}

void lars(const Coefficients c, float* __restrict parameters, const float* __restrict gradients,
          float* __restrict velocity, std::size_t size) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const float gradient = c.gradient_scale * gradients[i] + c.weight_decay * parameters[i];
    const float v = c.momentum * velocity[i] + c.learning_rate * gradient;
    velocity[i] = v;
    parameters[i] -= v;
  }
}

void adamw(const Coefficients c, float* __restrict parameters, const float* __restrict gradients,
           float* __restrict momentum, float* __restrict second_moment, std::size_t size) {
  const auto step = static_cast<double>(c.step);
  const auto beta1 = static_cast<float>(AdamW::beta1), beta2 = static_cast<float>(AdamW::beta2);
  const auto rest1 = static_cast<float>(1 - AdamW::beta1);
  const auto rest2 = static_cast<float>(1 - AdamW::beta2);
  const auto rate = static_cast<float>(c.learning_rate / (1 - std::pow(AdamW::beta1, step)));
  const auto correction = static_cast<float>(1 / std::sqrt(1 - std::pow(AdamW::beta2, step)));
  const float decay = c.learning_rate * c.weight_decay;
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const float gradient = c.gradient_scale * gradients[i];
    const float m = beta1 * momentum[i] + rest1 * gradient;
    const float s = beta2 * second_moment[i] + rest2 * gradient * gradient;
    momentum[i] = m;
    second_moment[i] = s;
    parameters[i] -=
        decay * parameters[i] + rate * m / (std::sqrt(s) * correction + AdamW::epsilon);
  }
}

/// Calls `work(first, count)` for chunks of [0, size), in several threads.
template <class Work>
void for_chunks(std::size_t size, const Work& work) {
#pragma omp parallel for schedule(static) if (size > chunk)
  for (std::size_t first = 0; first < size; first += chunk)
    work(first, std::min(chunk, size - first));
}

Values part(const Values& values, std::size_t first, std::size_t count) {
  return {values.parameters.subspan(first, count), values.gradients.subspan(first, count),
          values.momentum.subspan(first, count),
          values.second_moment.empty() ? std::span<float>{}
                                       : values.second_moment.subspan(first, count)};
}

/// Number of partial sums. It is fixed, so that the order of the additions does not depend on the
/// number of threads.
constexpr std::size_t parts = 64;
/// Shorter arrays are summed by one thread, because starting threads takes longer.
constexpr std::size_t least_parallel = 1 << 15;

double part_of_sum(std::span<const float> values) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += value * value;
  }
  return sum;
}

/// Returns the sum of the squares of `values` in float64. The order of the additions is fixed: the
/// result depends neither on the number of threads nor on the host.
double sum_of_squares(std::span<const float> values) {
  const std::size_t size = values.size();
  std::array<double, parts> sums{};
#pragma omp parallel for schedule(static) if (size >= least_parallel)
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = size * part / parts, end = size * (part + 1) / parts;
    sums[part] = part_of_sum(values.subspan(begin, end - begin));
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

std::span<const core::NamedValue<Kind>> named_values(Kind) {
  static constexpr std::array<core::NamedValue<Kind>, 3> values{
      {{Kind::sgd, "sgd", "with momentum"},
       {Kind::lars, "lars", "layer-wise adaptive rates for large batches"},
       {Kind::adamw, "adamw", "Adam with decoupled weight decay"}}};
  return values;
}

std::span<const core::NamedValue<VectorDecay>> named_values(VectorDecay) {
  static constexpr std::array<core::NamedValue<VectorDecay>, 2> values{
      {{VectorDecay::on, "on", "all parameters decay"},
       {VectorDecay::off, "off", "only weights of convolutions and linear layers decay"}}};
  return values;
}

void update(Kind kind, const Coefficients& coefficients, const Values& values) {
  const std::size_t size = values.parameters.size();
  const bool has_second_moment = kind == Kind::adamw;
  core::check(values.gradients.size() == size && values.momentum.size() == size &&
                  (!has_second_moment || values.second_moment.size() == size),
              "parameters, gradients and moments have one length");
  float* const parameters = values.parameters.data();
  const float* const gradients = values.gradients.data();
  float* const momentum = values.momentum.data();
  const auto run = [&](auto rule) {
    for_chunks(size, [&](std::size_t first, std::size_t count) {
      rule(coefficients, parameters + first, gradients + first, momentum + first, count);
    });
  };
  switch (kind) {
    case Kind::sgd: return run(coefficients.nesterov ? sgd<true> : sgd<false>);
    case Kind::lars: return run(lars);
    case Kind::adamw:
      return for_chunks(size, [&](std::size_t first, std::size_t count) {
        adamw(coefficients, parameters + first, gradients + first, momentum + first,
              values.second_moment.data() + first, count);
      });
  }
}

float local_rate(const Coefficients& coefficients, std::span<const float> parameters,
                 std::span<const float> gradients) {
  const double weight = std::sqrt(sum_of_squares(parameters));
  const double gradient =
      static_cast<double>(coefficients.gradient_scale) * std::sqrt(sum_of_squares(gradients));
  if (weight == 0 || gradient == 0) return 1;
  const double decay = static_cast<double>(coefficients.weight_decay);
  return static_cast<float>(static_cast<double>(coefficients.trust) * weight /
                            (gradient + decay * weight));
}

float clipping_factor(double max_norm, float gradient_scale, std::span<const float> gradients) {
  const double norm = static_cast<double>(gradient_scale) * std::sqrt(sum_of_squares(gradients));
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

Optimiser::Optimiser(Kind kind, VectorDecay vector_decay,
                     const std::vector<ParameterRange>& parameters)
    : kind_(kind) {
  for (const ParameterRange& parameter : parameters) {
    const bool decays = vector_decay == VectorDecay::on || !parameter.is_vector;
    if (kind == Kind::lars) {
      sections_.push_back({parameter.begin, parameter.end, decays});
    } else if (sections_.empty() || sections_.back().decays != decays) {
      if (!sections_.empty()) sections_.back().end = parameter.begin;
      sections_.push_back({parameter.begin, std::numeric_limits<std::size_t>::max(), decays});
    }
  }
}

void Optimiser::update(const Coefficients& coefficients, const Values& values, std::size_t first,
                       std::size_t count) const {
  const std::size_t last = first + count;
  for (const Section& section : sections_) {
    const bool is_lars = kind_ == Kind::lars;
    if (is_lars && (section.end <= first || section.end > last)) continue;
    const std::size_t begin = is_lars ? section.begin : std::max(section.begin, first);
    const std::size_t end = std::min(section.end, last);
    if (begin >= end) continue;
    const Values some = part(values, begin, end - begin);
    Coefficients own = coefficients;
    if (!section.decays) own.weight_decay = 0;
    if (is_lars && section.decays)
      own.learning_rate *= local_rate(own, some.parameters, some.gradients);
    optim::update(kind_, own, some);
  }
}

}  // namespace lockstep::optim
