// SPDX-License-Identifier: BSD-3-Clause
// y[p,q] = maximum of x[h,w] over a kernel x kernel window that begins at (p, q) stride - padding;
// positions outside the image are ignored. The gradient is added at the position of the maximum,
// the first one in row order if several are equal. A NaN is larger than every number (as in
// PyTorch).

#include <algorithm>
#include <cmath>
#include <span>

#include "lockstep/graph/operations/max_pool.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

/// Returns the index in `plane` of the maximum in the window of the output (p, q).
std::int64_t index_of_maximum(const graph::MaxPool& operation, std::span<const double> plane,
                              core::ImageShape shape, std::int64_t p, std::int64_t q) {
  const std::int64_t top = p * operation.stride - operation.padding;
  const std::int64_t left = q * operation.stride - operation.padding;
  const std::int64_t bottom = std::min(top + operation.kernel, shape.height);
  const std::int64_t right = std::min(left + operation.kernel, shape.width);
  const std::int64_t first_h = std::max<std::int64_t>(top, 0);
  const std::int64_t first_w = std::max<std::int64_t>(left, 0);
  std::int64_t best = first_h * shape.width + first_w;
  for (std::int64_t h = first_h; h < bottom; ++h) {
    for (std::int64_t w = first_w; w < right; ++w) {
      const std::int64_t pixel = h * shape.width + w;
      if (plane[pixel] > plane[best] || std::isnan(plane[pixel])) best = pixel;
    }
  }
  return best;
}

}  // namespace

void forward(const graph::MaxPool& operation, NodeData& node, PlanData&) {
  const Tensor& x = node.x();
  Tensor& y = node.y;
  node.saved.resize(y.all().size());
  auto winner = node.saved.begin();  // index of the maximum in its plane, for each output
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t c = 0; c < x.shape.channels; ++c) {
      const auto plane = x.plane(n, c);
      for (std::int64_t p = 0; p < y.shape.height; ++p) {
        for (std::int64_t q = 0; q < y.shape.width; ++q) {
          const std::int64_t best = index_of_maximum(operation, plane, x.shape, p, q);
          *winner++ = static_cast<double>(best);
          y.row(n, c, p)[q] = plane[best];
        }
      }
    }
  }
}

void backward(const graph::MaxPool&, NodeData& node, const PlanData&) {
  Tensor* const dx = node.dx();
  if (dx == nullptr) return;
  const Tensor& dy = node.dy;
  auto winner = node.saved.begin();
  for (std::int64_t n = 0; n < dy.batch; ++n) {
    for (std::int64_t c = 0; c < dy.shape.channels; ++c) {
      const auto target = dx->plane(n, c);
      for (const double value : dy.plane(n, c))
        target[static_cast<std::size_t>(*winner++)] += value;
    }
  }
}

}  // namespace lockstep::backend::reference
