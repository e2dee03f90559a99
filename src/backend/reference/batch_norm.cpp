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

#include <cmath>

#include "lockstep/core/error.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

void normalise_channel(const Tensor& x, std::int64_t channel, double mean, double scale,
                       double bias, Tensor& y) {
  for (std::int64_t n = 0; n < x.batch; ++n) {
    const auto in = x.plane(n, channel);
    const auto out = y.plane(n, channel);
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = (in[i] - mean) * scale + bias;
  }
}

/// Computes count and means of the channels over all replicas and stores them in `moments`.
void compute_means(const Tensor& x, core::StatisticsSum* replicas, BatchNormMoments& moments) {
  moments.count = static_cast<double>(x.batch * x.shape.pixels());
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    moments.mean[c] = 0;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      for (const double value : x.plane(n, c)) moments.mean[c] += value;
    }
  }
  if (replicas != nullptr) {
    const std::span sums = std::span(moments.sums).first(1 + moments.mean.size());
    sums[0] = static_cast<float>(moments.count);
    for (std::size_t c = 0; c < moments.mean.size(); ++c) {
      sums[1 + c] = static_cast<float>(moments.mean[c]);
    }
    replicas->sum(sums);
    moments.count = sums[0];
    for (std::size_t c = 0; c < moments.mean.size(); ++c) moments.mean[c] = sums[1 + c];
  }
  for (double& mean : moments.mean) mean /= moments.count;
}

/// Computes the sums of squares of the channels about their means over all replicas and stores them
/// in `moments.inverse_deviation`.
void compute_centred_squares(const Tensor& x, core::StatisticsSum* replicas,
                             BatchNormMoments& moments) {
  std::vector<double>& squares = moments.inverse_deviation;
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    squares[c] = 0;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      for (const double value : x.plane(n, c)) {
        squares[c] += (value - moments.mean[c]) * (value - moments.mean[c]);
      }
    }
  }
  if (replicas == nullptr) return;
  const std::span sums = std::span(moments.sums).first(squares.size());
  for (std::size_t c = 0; c < squares.size(); ++c) sums[c] = static_cast<float>(squares[c]);
  replicas->sum(sums);
  for (std::size_t c = 0; c < squares.size(); ++c) squares[c] = sums[c];
}

}  // namespace

void batch_norm_forward_training(const graph::BatchNorm& operation, const Tensor& x,
                                 std::span<const double> weight, std::span<const double> bias,
                                 core::StatisticsSum* replicas, BatchNormMoments& moments,
                                 RunningStatistics running, Tensor& y) {
  compute_means(x, replicas, moments);
  compute_centred_squares(x, replicas, moments);
  core::check(moments.count > 1, "the variance of one value is not defined");
  const double momentum = operation.momentum;
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    const double squares = moments.inverse_deviation[c];
    running.mean[c] =
        static_cast<float>((1 - momentum) * running.mean[c] + momentum * moments.mean[c]);
    running.variance[c] = static_cast<float>((1 - momentum) * running.variance[c] +
                                             momentum * squares / (moments.count - 1));
    moments.inverse_deviation[c] = 1 / std::sqrt(squares / moments.count + operation.epsilon);
    normalise_channel(x, c, moments.mean[c], moments.inverse_deviation[c] * weight[c], bias[c], y);
  }
}

void batch_norm_forward_inference(const graph::BatchNorm& operation, const Tensor& x,
                                  std::span<const double> weight, std::span<const double> bias,
                                  RunningStatistics running, Tensor& y) {
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    const double deviation = std::sqrt(double{running.variance[c]} + operation.epsilon);
    normalise_channel(x, c, running.mean[c], weight[c] / deviation, bias[c], y);
  }
}

void batch_norm_backward(const Tensor& x, std::span<const double> weight, const Tensor& dy,
                         core::StatisticsSum* replicas, BatchNormMoments& moments, Tensor* dx,
                         std::span<double> dweight, std::span<double> dbias) {
  const std::size_t channels = moments.mean.size();
  const std::span sums = std::span(moments.sums).first(2 * channels);
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
    sums[c] = static_cast<float>(dweight[c]);
    sums[channels + c] = static_cast<float>(dbias[c]);
  }
  if (replicas != nullptr) replicas->sum(sums);
  if (dx == nullptr) return;
  for (std::int64_t c = 0; c < x.shape.channels; ++c) {
    const double scale = moments.inverse_deviation[c];
    const double product_mean = (replicas ? sums[c] : dweight[c]) / moments.count;
    const double mean = (replicas ? sums[channels + c] : dbias[c]) / moments.count;
    for (std::int64_t n = 0; n < x.batch; ++n) {
      const auto in = x.plane(n, c);
      const auto out = dy.plane(n, c);
      const auto target = dx->plane(n, c);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double normalised = (in[i] - moments.mean[c]) * scale;
        target[i] += weight[c] * scale * (out[i] - mean - normalised * product_mean);
      }
    }
  }
}

}  // namespace lockstep::backend::reference
