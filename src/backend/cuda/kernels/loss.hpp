// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Softmax cross-entropy with label smoothing s on float32 logits x (rows, classes), one image per
// row:
//   loss = log sum_k exp(x_k) - sum_k q_k x_k,  q = (1 - s) one_hot(label) + s / classes
//   dx_k = (softmax(x)_k - q_k) loss_scale / images
// The computation uses float64 and subtracts the largest logit. A prediction is correct (a hit) if
// the label is the first class with the largest logit. The sums over the batch are computed in a
// fixed order.

#include <cmath>
#include <cstdint>

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Sums over one batch, in device memory: of the losses and of the correct predictions.
struct DeviceResult {
  double loss_sum = 0;
  std::int64_t correct = 0;
};

/// Rows from `images` on contain no image; their losses, hits and gradients are 0. One warp
/// processes one row.
/// Memory traffic: reads logits (five times); writes gradients, losses, hits; from caches: labels,
/// source, loss_scale.
struct SoftmaxCrossEntropy {
  static constexpr int team = 32;

  const float* logits;
  const std::int32_t* labels;
  const std::int32_t* source;  ///< (images) index into `labels`; null: i for image i
  const float* loss_scale;     ///< one value; null: 1
  double* losses;              ///< output (rows)
  std::int32_t* hits;          ///< output (rows): 1 if the prediction is correct, else 0
  float* gradients;            ///< output (rows, classes); null: not needed
  std::int64_t rows, images, classes;
  float smoothing;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t row) const {
    if (row >= images) {
      clear(row);
      return;
    }
    const float* const x = logits + row * classes;
    const std::int64_t label = labels[source != nullptr ? source[row] : row];
    const float largest = team_reduce<team>(
        classes, -infinity, [&](std::int64_t k) { return x[k]; },
        [](float a, float b) { return b > a ? b : a; });
    const std::int64_t first = team_reduce<team>(
        classes, classes, [&](std::int64_t k) { return x[k] == largest ? k : classes; },
        [](std::int64_t a, std::int64_t b) { return b < a ? b : a; });
    const auto shift = static_cast<double>(largest);
    const double sum = team_sum<team, double>(
        classes, [&](std::int64_t k) { return std::exp(static_cast<double>(x[k]) - shift); });
    const double total =
        team_sum<team, double>(classes, [&](std::int64_t k) { return static_cast<double>(x[k]); });
    const double log_sum = std::log(sum) + shift;
    const double share = static_cast<double>(smoothing) / static_cast<double>(classes);
    const double rest = 1 - static_cast<double>(smoothing);
    if (team_lane<team>() == 0) {
      losses[row] = log_sum - (rest * static_cast<double>(x[label]) + share * total);
      hits[row] = first == label ? 1 : 0;
    }
    if (gradients == nullptr) return;
    const double scale = (loss_scale != nullptr ? static_cast<double>(*loss_scale) : 1.0) /
                         static_cast<double>(images);
    float* const to = gradients + row * classes;
    team_for<team>(classes, [&](std::int64_t k) {
      const double wanted = (k == label ? rest : 0.0) + share;
      to[k] = static_cast<float>((std::exp(static_cast<double>(x[k]) - log_sum) - wanted) * scale);
    });
  }

 private:
  LOCKSTEP_HOST_DEVICE void clear(std::int64_t row) const {
    if (team_lane<team>() == 0) {
      losses[row] = 0;
      hits[row] = 0;
    }
    if (gradients == nullptr) return;
    float* const to = gradients + row * classes;
    team_for<team>(classes, [&](std::int64_t k) { to[k] = 0; });
  }
};

/// Sums `losses` and `hits` (rows) to `result`. Uses one block.
/// Memory traffic: reads losses, hits; writes result.
struct SumResults {
  static constexpr int team = 256;

  const double* losses;
  const std::int32_t* hits;
  DeviceResult* result;
  std::int64_t rows;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return 1; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t) const {
    const double loss_sum =
        team_sum<team, double>(rows, [&](std::int64_t row) { return losses[row]; });
    const auto correct = team_sum<team, std::int64_t>(
        rows, [&](std::int64_t row) -> std::int64_t { return hits[row]; });
    if (team_lane<team>() == 0) *result = {loss_sum, correct};
  }
};

}  // namespace lockstep::backend::cuda::kernels
