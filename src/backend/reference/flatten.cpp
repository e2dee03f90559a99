// SPDX-License-Identifier: BSD-3-Clause
// y[n, (c H + h) W + w] = x[n,c,h,w]: planar feature maps already have this order.

#include <algorithm>

#include "operations.hpp"

namespace lockstep::backend::reference {

void forward(const graph::Flatten&, NodeData& node, PlanData&) {
  std::ranges::copy(node.x().all(), node.y.all().begin());
}

void backward(const graph::Flatten&, NodeData& node, const PlanData&) {
  if (node.dx() == nullptr) return;
  const auto from = node.dy.all();
  const auto to = node.dx()->all();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

}  // namespace lockstep::backend::reference
