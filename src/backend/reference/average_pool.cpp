// SPDX-License-Identifier: BSD-3-Clause
// y[n,c] = sum_{h,w} x[n,c,h,w] / (H W); dx[n,c,h,w] = dy[n,c] / (H W).

#include <numeric>

#include "operations.hpp"

namespace lockstep::backend::reference {

void forward(const graph::GlobalAveragePool&, NodeData& node, PlanData&) {
  const Tensor& x = node.x();
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t c = 0; c < x.shape.channels; ++c) {
      const auto plane = x.plane(n, c);
      const double sum = std::accumulate(plane.begin(), plane.end(), 0.0);
      node.y.plane(n, c)[0] = sum / static_cast<double>(plane.size());
    }
  }
}

void backward(const graph::GlobalAveragePool&, NodeData& node, const PlanData&) {
  Tensor* const dx = node.dx();
  if (dx == nullptr) return;
  const Tensor& dy = node.dy;
  for (std::int64_t n = 0; n < dy.batch; ++n) {
    for (std::int64_t c = 0; c < dy.shape.channels; ++c) {
      const auto plane = dx->plane(n, c);
      const double share = dy.plane(n, c)[0] / static_cast<double>(plane.size());
      for (double& value : plane) value += share;
    }
  }
}

}  // namespace lockstep::backend::reference
