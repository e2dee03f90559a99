// SPDX-License-Identifier: BSD-3-Clause
// Group normalisation (Wu, He, 2018), for each image and group of C / G channels over their m
// values:
//   mu = sum x / m,  var = sum (x - mu)^2 / m,  xhat = (x - mu) / sqrt(var + eps)
//   y = gamma xhat + beta, with gamma and beta of the channel
//   dgamma = sum dy xhat,  dbeta = sum dy, over all images and pixels of the channel
//   dx = (gamma dy - sum (gamma dy) / m - xhat sum (gamma dy xhat) / m) / sqrt(var + eps)

#include "lockstep/graph/operations/group_norm.hpp"

#include <cmath>

#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

/// The values of one image and group, which are consecutive in a tensor.
struct Group {
  std::size_t first = 0, size = 0;  ///< in the tensor
  std::size_t first_channel = 0, pixels = 0;

  std::size_t channel(std::size_t value) const { return first_channel + value / pixels; }
};

/// Calls work(group, index of the group) for each group of each image.
template <class Work>
void for_each_group(const graph::GroupNorm& operation, const Tensor& x, Work&& work) {
  const auto channels = static_cast<std::size_t>(x.shape.channels / operation.groups);
  const auto pixels = static_cast<std::size_t>(x.shape.pixels());
  const auto groups = static_cast<std::size_t>(operation.groups);
  for (std::size_t index = 0; index < static_cast<std::size_t>(x.batch) * groups; ++index) {
    work(Group{index * channels * pixels, channels * pixels, index % groups * channels, pixels},
         index);
  }
}

}  // namespace

void forward(const graph::GroupNorm& operation, NodeData& node, PlanData&) {
  // Mean and 1 / sqrt(var + eps) of each image and group.
  node.saved.resize(static_cast<std::size_t>(2 * node.y.batch * operation.groups));
  const std::vector<double>& x = node.x().values;
  for_each_group(operation, node.x(), [&](const Group& group, std::size_t index) {
    const auto values = std::span(x).subspan(group.first, group.size);
    const auto count = static_cast<double>(group.size);
    double sum = 0, squares = 0;
    for (const double value : values) sum += value;
    const double mean = sum / count;
    for (const double value : values) squares += (value - mean) * (value - mean);
    const double inverse = 1 / std::sqrt(squares / count + operation.epsilon);
    node.saved[2 * index] = mean;
    node.saved[2 * index + 1] = inverse;
    for (std::size_t i = 0; i < group.size; ++i) {
      const std::size_t channel = group.channel(i);
      node.y.values[group.first + i] =
          node.weight[channel] * (values[i] - mean) * inverse + node.bias[channel];
    }
  });
}

void backward(const graph::GroupNorm& operation, NodeData& node, const PlanData&) {
  std::ranges::fill(node.dweight, 0.0);
  std::ranges::fill(node.dbias, 0.0);
  for_each_group(operation, node.x(), [&](const Group& group, std::size_t index) {
    const double mean = node.saved[2 * index], inverse = node.saved[2 * index + 1];
    const auto x = std::span(node.x().values).subspan(group.first, group.size);
    const auto dy = std::span(node.dy.values).subspan(group.first, group.size);
    double sum = 0, product = 0;
    for (std::size_t i = 0; i < group.size; ++i) {
      const std::size_t channel = group.channel(i);
      const double normalised = (x[i] - mean) * inverse;
      node.dweight[channel] += dy[i] * normalised;
      node.dbias[channel] += dy[i];
      sum += node.weight[channel] * dy[i];
      product += node.weight[channel] * dy[i] * normalised;
    }
    if (node.dx() == nullptr) return;
    const auto count = static_cast<double>(group.size);
    for (std::size_t i = 0; i < group.size; ++i) {
      const double normalised = (x[i] - mean) * inverse;
      node.dx()->values[group.first + i] += inverse * (node.weight[group.channel(i)] * dy[i] -
                                                       sum / count - normalised * product / count);
    }
  });
}

}  // namespace lockstep::backend::reference
