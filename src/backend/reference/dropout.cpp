// SPDX-License-Identifier: BSD-3-Clause
// Training: y = m x / (1 - p), dx = m dy / (1 - p) with a mask m of zeros (probability p) and ones.
// Inference: y = x (Srivastava et al., "Dropout", 2014, with PyTorch's scaling). The mask of an
// image is a function of seed, layer, step and the index of the image in the global batch; its
// elements are in the order (channel, row, column).

#include <algorithm>

#include "lockstep/core/random.hpp"
#include "lockstep/graph/operations/dropout.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

/// Calls visit(index of the element, factor) for each element of the batch.
template <class Visit>
void for_each_factor(const graph::Dropout& operation, const PlanData& plan, const Tensor& x,
                     Visit visit) {
  const auto step = static_cast<std::uint32_t>(plan.step);
  const std::uint64_t mask = (std::uint64_t{operation.layer} << 32) | step;
  std::size_t index = 0;
  for (std::int64_t n = 0; n < x.batch; ++n) {
    const std::int64_t image = plan.options.global_image(n);
    core::Random random(plan.options.seed, core::RandomStream::operations, mask,
                        static_cast<std::uint32_t>(image));
    for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
      const bool is_kept = random.uniform() >= operation.probability;
      visit(index++, is_kept ? 1 / (1 - double{operation.probability}) : 0);
    }
  }
}

}  // namespace

void forward(const graph::Dropout& operation, NodeData& node, PlanData& plan) {
  const auto x = node.x().all();
  const auto y = node.y.all();
  if (plan.options.mode == Mode::inference) {
    std::ranges::copy(x, y.begin());
    return;
  }
  for_each_factor(operation, plan, node.x(),
                  [&](std::size_t i, double factor) { y[i] = factor * x[i]; });
}

void backward(const graph::Dropout& operation, NodeData& node, const PlanData& plan) {
  if (node.dx() == nullptr) return;
  const auto dx = node.dx()->all();
  const auto dy = node.dy.all();
  for_each_factor(operation, plan, node.x(),
                  [&](std::size_t i, double factor) { dx[i] += factor * dy[i]; });
}

}  // namespace lockstep::backend::reference
