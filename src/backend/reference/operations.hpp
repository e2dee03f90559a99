#pragma once

// The operations as plain loops in float64: the reference implementation with which the other
// backends are compared.
//
// `x` is the input of an operation, `y` its output; `dx` and `dy` are the gradients of the loss
// with respect to them. Every backward function ADDS to `dx`, because the gradient of a tensor with
// several consumers is the sum of their gradients; gradients of parameters are overwritten.
// Parameters have the layout of graph::Parameter. If `dx` is null, the gradient of the input is not
// needed.

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/graph/graph.hpp"
#include "tensor.hpp"

namespace lockstep::backend::reference {

/// Converts uint8 images (n, C, H, W) to normalised values.
void normalise(const Normalisation& normalisation, std::span<const std::uint8_t> images, Tensor& y);

/// `bias` is empty if the convolution has none.
void convolution_forward(const graph::Convolution& operation, const Tensor& x,
                         std::span<const double> weight, std::span<const double> bias, Tensor& y);
void convolution_backward(const graph::Convolution& operation, const Tensor& x,
                          std::span<const double> weight, const Tensor& dy, Tensor* dx,
                          std::span<double> dweight, std::span<double> dbias);

/// Values per channel that the forward pass of batch norm saves for backward.
struct BatchNormMoments {
  double count = 0;  ///< values per channel, over all replicas if statistics are synchronised
  std::vector<double> mean;
  std::vector<double> inverse_deviation;  ///< 1 / sqrt(biased variance + epsilon)
  std::vector<float> sums;                ///< buffer of the sums over replicas; 1 + 2 C values

  BatchNormMoments() = default;
  explicit BatchNormMoments(std::int64_t channels)
      : mean(channels), inverse_deviation(channels), sums(1 + 2 * channels) {}
};

/// Running statistics of one batch norm, (channels) each.
struct RunningStatistics {
  std::span<float> mean;
  std::span<float> variance;
};

/// Normalises with the statistics of the batch and updates the running statistics. `replicas` sums
/// the statistics over all replicas; null: statistics of this batch only. Collective if `replicas`
/// is not null.
void batch_norm_forward_training(const graph::BatchNorm& operation, const Tensor& x,
                                 std::span<const double> weight, std::span<const double> bias,
                                 core::StatisticsSum* replicas, BatchNormMoments& moments,
                                 RunningStatistics running, Tensor& y);
/// Normalises with the running statistics.
void batch_norm_forward_inference(const graph::BatchNorm& operation, const Tensor& x,
                                  std::span<const double> weight, std::span<const double> bias,
                                  RunningStatistics running, Tensor& y);
/// Collective if `replicas` is not null. `dweight` and `dbias` are the gradients of this replica.
void batch_norm_backward(const Tensor& x, std::span<const double> weight, const Tensor& dy,
                         core::StatisticsSum* replicas, BatchNormMoments& moments, Tensor* dx,
                         std::span<double> dweight, std::span<double> dbias);

void relu_forward(const Tensor& x, Tensor& y);
void relu_backward(const Tensor& x, const Tensor& dy, Tensor* dx);

void add_forward(const Tensor& left, const Tensor& right, Tensor& y);
void add_backward(const Tensor& dy, Tensor* dleft, Tensor* dright);

/// Stores in `winners`, for each output, the index of the maximum in its plane of the input.
void max_pool_forward(const graph::MaxPool& operation, const Tensor& x,
                      std::span<std::int32_t> winners, Tensor& y);
void max_pool_backward(std::span<const std::int32_t> winners, const Tensor& dy, Tensor* dx);

void average_pool_forward(const Tensor& x, Tensor& y);
void average_pool_backward(const Tensor& dy, Tensor* dx);

void linear_forward(const Tensor& x, std::span<const double> weight, std::span<const double> bias,
                    Tensor& y);
void linear_backward(const Tensor& x, std::span<const double> weight, const Tensor& dy, Tensor* dx,
                     std::span<double> dweight, std::span<double> dbias);

/// Writes the loss of each image to `y` and the softmax (shape of `x`), which the backward pass
/// needs, to `probabilities`. Returns the sum of the losses and the number of correct predictions.
BatchResult softmax_cross_entropy_forward(const graph::SoftmaxCrossEntropy& operation,
                                          const Tensor& x, std::span<const std::int32_t> labels,
                                          Tensor& probabilities, Tensor& y);
/// Computes the gradient of the mean loss over the batch.
void softmax_cross_entropy_backward(const graph::SoftmaxCrossEntropy& operation,
                                    std::span<const std::int32_t> labels,
                                    const Tensor& probabilities, Tensor* dx);

}  // namespace lockstep::backend::reference
