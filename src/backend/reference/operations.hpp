#pragma once

// The operations as plain loops in float64: the definition that the fast backends are judged by.
//
// `x` is an operation's input, `y` its output, `dx` and `dy` the gradients of the loss with respect
// to them. Every backward function ADDS to `dx`, because a tensor with several consumers has the
// sum of their gradients; gradients of parameters are overwritten. Parameters are laid out as in
// graph::Parameter. A null `dx` means that nobody needs that gradient.

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/graph/graph.hpp"
#include "tensor.hpp"

namespace lockstep::backend::reference {

/// uint8 images (n, C, H, W) to normalised values.
void normalise(const Normalisation& normalisation, std::span<const std::uint8_t> images, Tensor& y);

/// `bias` is empty where the convolution has none.
void convolution_forward(const graph::Convolution& operation, const Tensor& x,
                         std::span<const double> weight, std::span<const double> bias, Tensor& y);
void convolution_backward(const graph::Convolution& operation, const Tensor& x,
                          std::span<const double> weight, const Tensor& dy, Tensor* dx,
                          std::span<double> dweight, std::span<double> dbias);

/// What batch norm's forward pass leaves for its backward pass, per channel.
struct BatchNormMoments {
  double count = 0;  ///< values per channel, over all replicas where statistics are shared
  std::vector<double> mean;
  std::vector<double> inverse_deviation;  ///< 1 / sqrt(biased variance + epsilon)
  std::vector<float> sums;                ///< what travels between replicas; 1 + 2 C values

  BatchNormMoments() = default;
  explicit BatchNormMoments(std::int64_t channels)
      : mean(channels), inverse_deviation(channels), sums(1 + 2 * channels) {}
};

/// Running statistics of one batch norm, (channels) each.
struct RunningStatistics {
  std::span<float> mean;
  std::span<float> variance;
};

/// Normalises with the batch's statistics and moves the running ones. `replicas` adds statistics up
/// over all replicas; null: this batch alone. Collective where `replicas` is given.
void batch_norm_forward_training(const graph::BatchNorm& operation, const Tensor& x,
                                 std::span<const double> weight, std::span<const double> bias,
                                 core::StatisticsSum* replicas, BatchNormMoments& moments,
                                 RunningStatistics running, Tensor& y);
/// Normalises with the running statistics.
void batch_norm_forward_inference(const graph::BatchNorm& operation, const Tensor& x,
                                  std::span<const double> weight, std::span<const double> bias,
                                  RunningStatistics running, Tensor& y);
/// Collective where `replicas` is given. `dweight` and `dbias` are this replica's.
void batch_norm_backward(const Tensor& x, std::span<const double> weight, const Tensor& dy,
                         core::StatisticsSum* replicas, BatchNormMoments& moments, Tensor* dx,
                         std::span<double> dweight, std::span<double> dbias);

void relu_forward(const Tensor& x, Tensor& y);
void relu_backward(const Tensor& x, const Tensor& dy, Tensor* dx);

void add_forward(const Tensor& left, const Tensor& right, Tensor& y);
void add_backward(const Tensor& dy, Tensor* dleft, Tensor* dright);

/// `winners`: for each output the position in its plane of the input that it was taken from.
void max_pool_forward(const graph::MaxPool& operation, const Tensor& x,
                      std::span<std::int32_t> winners, Tensor& y);
void max_pool_backward(std::span<const std::int32_t> winners, const Tensor& dy, Tensor* dx);

void average_pool_forward(const Tensor& x, Tensor& y);
void average_pool_backward(const Tensor& dy, Tensor* dx);

void linear_forward(const Tensor& x, std::span<const double> weight, std::span<const double> bias,
                    Tensor& y);
void linear_backward(const Tensor& x, std::span<const double> weight, const Tensor& dy, Tensor* dx,
                     std::span<double> dweight, std::span<double> dbias);

/// `y` receives each image's loss, `probabilities` (the shape of `x`) what backward needs. Returns
/// their sum and the hits.
BatchResult softmax_cross_entropy_forward(const graph::SoftmaxCrossEntropy& operation,
                                          const Tensor& x, std::span<const std::int32_t> labels,
                                          Tensor& probabilities, Tensor& y);
/// Of the mean over the batch.
void softmax_cross_entropy_backward(const graph::SoftmaxCrossEntropy& operation,
                                    std::span<const std::int32_t> labels,
                                    const Tensor& probabilities, Tensor* dx);

}  // namespace lockstep::backend::reference
