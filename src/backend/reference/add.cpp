// SPDX-License-Identifier: BSD-3-Clause
// y = left + right; dleft = dright = dy.

#include "operations.hpp"

namespace lockstep::backend::reference {

void forward(const graph::Add&, NodeData& node, PlanData&) {
  const Tensor& left = *node.inputs[0];
  const Tensor& right = *node.inputs[1];
  const auto out = node.y.all();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = left.values[i] + right.values[i];
}

void backward(const graph::Add&, NodeData& node, const PlanData&) {
  const auto out = node.dy.all();
  for (Tensor* summand : node.input_gradients) {
    if (summand == nullptr) continue;
    for (std::size_t i = 0; i < out.size(); ++i) summand->values[i] += out[i];
  }
}

}  // namespace lockstep::backend::reference
