// SPDX-License-Identifier: BSD-3-Clause
// Cuts a network into contiguous stages with balanced work (see Graph::cut).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/operations/input.hpp"

namespace lockstep::graph {

namespace {

/// Returns the positions p, in ascending order, such that nodes [0, p) and [p, end) may be
/// different stages: only the value of node p - 1 passes from the first part to the second one.
std::vector<std::size_t> cut_positions(const std::vector<Node>& nodes) {
  std::vector<std::size_t> last_reader(nodes.size(), 0);
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    for (const NodeId input : nodes[id].inputs) last_reader[static_cast<std::size_t>(input)] = id;
  }
  std::vector<std::size_t> positions;
  std::size_t latest = 0;  // last reader of the values of nodes [0, position - 1)
  for (std::size_t position = 2; position < nodes.size(); ++position) {
    latest = std::max(latest, last_reader[position - 2]);
    if (latest < position && !nodes[position].operation.traits().stays_with_previous())
      positions.push_back(position);
  }
  return positions;
}

OutputForm stored_form(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const OutputForm form = node.operation.traits().form;
  return form == OutputForm::same_as_input ? stored_form(graph, node.inputs[0]) : form;
}

/// Divides the nodes into `stages` non-empty stages between `bounds` so that the largest sum of
/// `work` is as small as possible. Returns the first node of each stage. Dynamic programming over
/// (stages, segments between consecutive bounds).
std::vector<std::size_t> balance(const std::vector<std::size_t>& bounds,
                                 std::span<const double> work, std::size_t stages) {
  const std::size_t count = bounds.size() - 1;
  const double infinity = std::numeric_limits<double>::infinity();
  // best[s][n]: smallest largest sum of the first n segments in s stages; from[s][n]: the first
  // segment of the last stage.
  std::vector best(stages + 1, std::vector<double>(count + 1, infinity));
  std::vector from(stages + 1, std::vector<std::size_t>(count + 1, 0));
  best[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s) {
    for (std::size_t n = s; n <= count; ++n) {
      double sum = 0;
      for (std::size_t first = n; first-- > s - 1;) {
        for (std::size_t id = bounds[first]; id < bounds[first + 1]; ++id) sum += work[id];
        const double largest = std::max(best[s - 1][first], sum);
        if (largest < best[s][n]) {
          best[s][n] = largest;
          from[s][n] = first;
        }
      }
    }
  }
  std::vector<std::size_t> firsts(stages);
  std::size_t end = count;
  for (std::size_t s = stages; s > 0; --s) {
    end = from[s][end];
    firsts[s - 1] = bounds[end];
  }
  return firsts;
}

}  // namespace

Graph Graph::stage(std::size_t first, std::size_t last) const {
  Graph part(model_);
  std::map<NodeId, NodeId> ids;  // from this graph to the stage
  if (first > 0) {
    const auto before = static_cast<NodeId>(first - 1);
    ids[before] = part.append(node(before).name,
                              BoundaryInput{node(before).output, stored_form(*this, before)}, {});
  }
  NodeId latest = 0;
  for (std::size_t id = first; id < last; ++id) {
    const Node& from = nodes_[id];
    std::vector<NodeId> inputs;
    for (const NodeId input : from.inputs) inputs.push_back(ids.at(input));
    latest = ids[static_cast<NodeId>(id)] = part.append(from.name, from.operation, inputs);
  }
  std::size_t index = parameters_.size();  // of the first parameter of the stage
  for (std::size_t id = nodes_.size(); id-- > first;) index -= nodes_[id].parameters.size();
  for (Parameter& parameter : part.parameters_) parameter.index = index++;
  const bool is_last = last == nodes_.size();
  part.seal(is_last ? std::vector<NodeId>{} : std::vector<NodeId>{latest});
  return part;
}

std::vector<Graph> Graph::stages(const std::vector<std::size_t>& firsts) const {
  std::vector<Graph> parts;
  for (std::size_t i = 0; i < firsts.size(); ++i)
    parts.push_back(stage(firsts[i], i + 1 < firsts.size() ? firsts[i + 1] : nodes_.size()));
  return parts;
}

std::vector<Graph> Graph::cut(int stages) const {
  std::vector<double> work;
  for (std::size_t id = 0; id < nodes_.size(); ++id)
    work.push_back(cost(static_cast<NodeId>(id)).training_flops());
  return cut(stages, work);
}

std::vector<Graph> Graph::cut(int stages, std::span<const double> work) const {
  core::check(is_whole() && sealed_, "a whole, sealed network is cut");
  core::check(stages >= 1, "a network has at least one stage");
  core::check(work.size() == nodes_.size(), "every node has its work");
  std::vector<std::size_t> bounds = cut_positions(nodes_);
  bounds.insert(bounds.begin(), 0);
  const auto count = static_cast<std::size_t>(stages);
  if (count > bounds.size()) {
    core::fail(core::ExitStatus::usage,
               fmt::format("{} cannot be cut into {} stages; use at most {}", model_, stages,
                           bounds.size()));
  }
  bounds.push_back(nodes_.size());
  return this->stages(balance(bounds, work, count));
}

std::vector<Graph> Graph::cut_before(std::span<const std::string> firsts) const {
  core::check(is_whole() && sealed_, "a whole, sealed network is cut");
  const std::vector<std::size_t> positions = cut_positions(nodes_);
  std::vector<std::size_t> ids{0};
  for (const std::string& name : firsts) {
    const auto found = std::ranges::find_if(nodes_, [&](const Node& node) {
      return node.name == name || node.name.starts_with(name + ".");
    });
    if (found == nodes_.end())
      core::fail(core::ExitStatus::usage, fmt::format("{} has no layer '{}'", model_, name));
    const auto id = static_cast<std::size_t>(found - nodes_.begin());
    const auto next = std::ranges::lower_bound(positions, id);
    if (next == positions.end() || *next != id) {
      std::vector<std::string> possible;
      if (next != positions.begin()) possible.push_back(nodes_[*std::prev(next)].name);
      if (next != positions.end()) possible.push_back(nodes_[*next].name);
      const char* reason = "more than one value would pass between the stages (a residual block)";
      if (found->operation.traits().stays_with_previous())
        reason = "it is fused with the layer before it";
      if (id < 2) reason = "the first stage would have no layer";
      core::fail(core::ExitStatus::usage,
                 fmt::format("{} cannot be cut before {}: {}; cut before {}", model_, name, reason,
                             fmt::join(possible, " or ")));
    }
    if (id <= ids.back()) {
      core::fail(core::ExitStatus::usage,
                 fmt::format("the cuts of {} must be in forward order, but {} is not after {}",
                             model_, name, nodes_[ids.back()].name));
    }
    ids.push_back(id);
  }
  return stages(ids);
}

}  // namespace lockstep::graph
