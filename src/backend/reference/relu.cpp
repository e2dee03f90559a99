// SPDX-License-Identifier: BSD-3-Clause
// y = max(x, 0); dx = dy if x > 0, else 0 (0 at x = 0, as in PyTorch).

#include <algorithm>

#include "operations.hpp"

namespace lockstep::backend::reference {

void forward(const graph::Relu&, NodeData& node, PlanData&) {
  const auto in = node.x().all();
  const auto out = node.y.all();
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = std::max(in[i], 0.0);
}

void backward(const graph::Relu&, NodeData& node, const PlanData&) {
  if (node.dx() == nullptr) return;
  const auto in = node.x().all();
  const auto out = node.dy.all();
  const auto target = node.dx()->all();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] > 0) target[i] += out[i];
  }
}

}  // namespace lockstep::backend::reference
