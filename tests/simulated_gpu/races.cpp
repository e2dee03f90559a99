// SPDX-License-Identifier: BSD-3-Clause
// Finds races between the streams of a capture.

#include <fmt/format.h>

#include <algorithm>

#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

using Ancestors = std::vector<bool>;  ///< by node: whether it is executed before

/// Returns the ancestors of each node. Dependencies have smaller indices than their dependants.
std::vector<Ancestors> ancestors_of(const std::vector<Node>& nodes) {
  std::vector<Ancestors> all(nodes.size(), Ancestors(nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::size_t before : nodes[i].dependencies) {
      for (std::size_t k = 0; k < before; ++k) all[i][k] = all[i][k] || all[before][k];
      all[i][before] = true;
    }
  }
  return all;
}

bool any_overlap(const std::vector<Access>& some, const std::vector<Access>& others) {
  return std::ranges::any_of(some, [&](const Access& a) {
    return std::ranges::any_of(others, [&](const Access& b) { return overlap(a, b); });
  });
}

/// A kernel may use a part of a buffer that does not begin at its argument, while a copy or a
/// collective uses the beginning. cuDNN's tensors are whole buffers.
bool is_comparable(const Task& a, const Task& b) {
  if (a.kind == WorkKind::kernel) return b.kind == WorkKind::dnn;
  return b.kind != WorkKind::kernel || a.kind == WorkKind::dnn;
}

bool conflict(const Task& a, const Task& b) {
  if (!is_comparable(a, b)) return false;
  return any_overlap(a.writes, b.writes) || any_overlap(a.writes, b.reads) ||
         any_overlap(a.reads, b.writes);
}

}  // namespace

void require_no_race(const Capture& capture) {
  const std::vector<Node>& nodes = capture.nodes;
  if (std::ranges::none_of(nodes, &Node::is_forked)) return;
  const std::vector<Ancestors> ancestors = ancestors_of(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (ancestors[i][j] || !conflict(nodes[i].task, nodes[j].task)) continue;
      return violation("race between streams",
                       fmt::format("nodes {} and {} of a capture use the same memory in an order "
                                   "that no dependency determines",
                                   j, i));
    }
  }
}

}  // namespace lockstep::simulated_gpu
