// SPDX-License-Identifier: BSD-3-Clause
// Batch normalisation (Ioffe, Szegedy, 2015), per channel over the m values of all images and
// pixels:
//   mu = sum x / m,  var = sum (x - mu)^2 / m,  xhat = (x - mu) / sqrt(var + eps)
//   y = gamma xhat + beta
//   dgamma = sum dy xhat,  dbeta = sum dy
//   dx = gamma / sqrt(var + eps) (dy - dbeta / m - xhat dgamma / m)
// Running statistics are updated as in PyTorch: running = (1 - momentum) running + momentum batch,
// with the unbiased variance of the batch, var m / (m - 1). With several replicas, the sums and m
// are over all replicas; squares are summed about the common mean, because sum x^2 - m mu^2 suffers
// from cancellation.

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations/batch_norm.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

/// Views of the values that the forward pass saves for the backward pass.
struct Moments {
  double& count;  ///< values per channel, over all replicas if statistics are synchronised
  std::span<double> mean;
  std::span<double> inverse_deviation;  ///< 1 / sqrt(biased variance + epsilon)

  Moments(NodeData& node, std::size_t channels)
      : count(node.saved[0]),
        mean(std::span(node.saved).subspan(1, channels)),
        inverse_deviation(std::span(node.saved).subspan(1 + channels, channels)) {}
};

void normalise_channel(const Tensor& x, std::int64_t channel, double mean, double scale,
                       double bias, Tensor& y) {
  for (std::int64_t n = 0; n < x.batch; ++n) {
    const auto in = x.plane(n, channel);
    const auto out = y.plane(n, channel);
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = (in[i] - mean) * scale + bias;
  }
}

/// Replaces the values by their sums over all replicas, in float32; `buffer` is at least as long.
void sum_over(core::StatisticsAllReduce* replicas, std::span<double> values,
              std::span<float> buffer) {
  if (replicas == nullptr) return;
  std::ranges::copy(values, buffer.begin());
  replicas->sum(buffer.first(values.size()));
  std::ranges::copy(buffer.first(values.size()), values.begin());
}

/// Computes count and means of the channels over all replicas and stores them in `node.saved`.
void compute_means(NodeData& node, core::StatisticsAllReduce* replicas, const Moments& moments) {
  const Tensor& x = node.x();
  moments.count = static_cast<double>(x.batch * x.shape.pixels());
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    moments.mean[c] = 0;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      for (const double value : x.plane(n, c)) moments.mean[c] += value;
    }
  }
  sum_over(replicas, std::span(node.saved).first(1 + moments.mean.size()), node.sums);
  for (double& mean : moments.mean) mean /= moments.count;
}

/// Computes the sums of squares of the channels about their means over all replicas and stores them
/// in `moments.inverse_deviation`.
void compute_centred_squares(NodeData& node, core::StatisticsAllReduce* replicas,
                             const Moments& moments) {
  const Tensor& x = node.x();
  const std::span<double> squares = moments.inverse_deviation;
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    squares[c] = 0;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      for (const double value : x.plane(n, c)) {
        squares[c] += (value - moments.mean[c]) * (value - moments.mean[c]);
      }
    }
  }
  sum_over(replicas, squares, node.sums);
}

void normalise_with_batch(const graph::BatchNorm& operation, NodeData& node,
                          core::StatisticsAllReduce* replicas) {
  const std::size_t channels = node.running.mean.size();
  node.saved.resize(1 + 4 * channels);
  node.sums.resize(1 + 2 * channels);
  const Moments moments(node, channels);
  const Tensor& x = node.x();
  compute_means(node, replicas, moments);
  compute_centred_squares(node, replicas, moments);
  core::check(moments.count > 1, "the variance of one value is not defined");
  const double momentum = operation.momentum;
  const RunningStatistics running = node.running;
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    const double squares = moments.inverse_deviation[c];
    running.mean[c] =
        static_cast<float>((1 - momentum) * running.mean[c] + momentum * moments.mean[c]);
    running.variance[c] = static_cast<float>((1 - momentum) * running.variance[c] +
                                             momentum * squares / (moments.count - 1));
    moments.inverse_deviation[c] = 1 / std::sqrt(squares / moments.count + operation.epsilon);
    normalise_channel(x, c, moments.mean[c], moments.inverse_deviation[c] * node.weight[c],
                      node.bias[c], node.y);
  }
}

void normalise_with_running(const graph::BatchNorm& operation, NodeData& node) {
  for (std::int64_t c = 0; c < node.y.shape.channels; ++c) {
    const double deviation = std::sqrt(double{node.running.variance[c]} + operation.epsilon);
    normalise_channel(node.x(), c, node.running.mean[c], node.weight[c] / deviation, node.bias[c],
                      node.y);
  }
}

}  // namespace

void forward(const graph::BatchNorm& operation, NodeData& node, PlanData& plan) {
  if (plan.options.mode == Mode::training) {
    normalise_with_batch(operation, node, plan.options.batch_norm_sum);
  } else {
    normalise_with_running(operation, node);
  }
}

void backward(const graph::BatchNorm&, NodeData& node, const PlanData& plan) {
  const Moments moments(node, node.running.mean.size());
  const Tensor& x = node.x();
  const Tensor& dy = node.dy;
  Tensor* const dx = node.dx();
  const std::span<double> dweight = node.dweight, dbias = node.dbias;
  const std::size_t channels = moments.mean.size();
  // Of dweight and dbias over all replicas.
  const std::span sums = std::span(node.saved).subspan(1 + 2 * channels, 2 * channels);
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    dweight[c] = 0;
    dbias[c] = 0;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      const auto in = x.plane(n, c);
      const auto out = dy.plane(n, c);
      for (std::size_t i = 0; i < in.size(); ++i) {
        dweight[c] += out[i] * (in[i] - moments.mean[c]) * moments.inverse_deviation[c];
        dbias[c] += out[i];
      }
    }
    sums[c] = dweight[c];
    sums[channels + c] = dbias[c];
  }
  sum_over(plan.options.batch_norm_sum, sums, node.sums);
  if (dx == nullptr) return;
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    const double scale = moments.inverse_deviation[c];
    const double product_mean = sums[c] / moments.count;
    const double mean = sums[channels + c] / moments.count;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      const auto in = x.plane(n, c);
      const auto out = dy.plane(n, c);
      const auto target = dx->plane(n, c);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double normalised = (in[i] - moments.mean[c]) * scale;
        target[i] += node.weight[c] * scale * (out[i] - mean - normalised * product_mean);
      }
    }
  }
}

}  // namespace lockstep::backend::reference
