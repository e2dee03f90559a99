// SPDX-License-Identifier: BSD-3-Clause
// y[n,k] = b[k] + sum_c W[k,c] x[n,c]
// dx[n,c] = sum_k W[k,c] dy[n,k],  dW[k,c] = sum_n dy[n,k] x[n,c],  db[k] = sum_n dy[n,k]

#include <algorithm>

#include "operations.hpp"

namespace lockstep::backend::reference {

void forward(const graph::Linear&, NodeData& node, PlanData&) {
  const Tensor& x = node.x();
  Tensor& y = node.y;
  const std::int64_t inputs = x.shape.channels;
  const std::int64_t outputs = y.shape.channels;
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      double sum = node.bias[k];
      for (std::int64_t c = 0; c < inputs; ++c) {
        sum += node.weight[k * inputs + c] * x.values[n * inputs + c];
      }
      y.values[n * outputs + k] = sum;
    }
  }
}

void backward(const graph::Linear&, NodeData& node, const PlanData&) {
  const Tensor& x = node.x();
  const Tensor& dy = node.dy;
  Tensor* const dx = node.dx();
  const std::int64_t inputs = x.shape.channels;
  const std::int64_t outputs = dy.shape.channels;
  std::ranges::fill(node.dweight, 0.0);
  std::ranges::fill(node.dbias, 0.0);
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      const double value = dy.values[n * outputs + k];
      node.dbias[k] += value;
      for (std::int64_t c = 0; c < inputs; ++c) {
        node.dweight[k * inputs + c] += value * x.values[n * inputs + c];
        if (dx != nullptr) dx->values[n * inputs + c] += value * node.weight[k * inputs + c];
      }
    }
  }
}

}  // namespace lockstep::backend::reference
