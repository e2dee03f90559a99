// SPDX-License-Identifier: BSD-3-Clause
#include "operation_work.hpp"

#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::study {

namespace {

double element_bytes(core::Precision precision) {
  return precision == core::Precision::bf16 || precision == core::Precision::fp16 ? 2.0 : 4.0;
}

/// Returns the work for one image, without the parameters.
Work work_of_image(const graph::NodeCost& cost, std::string_view phase, core::Precision precision) {
  if (phase == "forward")
    return {cost.forward_flops, cost.forward_values * element_bytes(precision)};
  const double bytes = cost.backward_values * element_bytes(precision);
  if (phase == "backward data") return {cost.backward_data_flops, bytes};
  if (phase == "backward weights") return {cost.backward_weight_flops, bytes};
  return {cost.backward_data_flops + cost.backward_weight_flops, bytes};
}

/// Returns the size of the float32 parameters of a node in bytes.
double parameter_bytes(const graph::Graph& graph, graph::NodeId id) {
  std::size_t elements = 0;
  for (const std::size_t index : graph.node(id).parameters)
    elements += graph.parameters()[index].elements;
  return sizeof(float) * static_cast<double>(elements);
}

}  // namespace

Work work_of(const graph::Graph& graph, graph::NodeId id, std::string_view phase,
             std::int64_t batch, core::Precision precision) {
  const graph::NodeCost cost = graph.cost(id);
  const auto images = static_cast<double>(batch);
  Work work = work_of_image(cost, phase, precision);
  work.flops *= images;
  work.bytes = work.bytes * images + parameter_bytes(graph, id);
  // A phase that computes both gradients makes a pass over its maps and parameters for each.
  const bool has_both = cost.backward_data_flops > 0 && cost.backward_weight_flops > 0;
  if (phase == "backward" && has_both) work.bytes *= 2;
  return work;
}

OperationWorks::OperationWorks(const graph::Graph& graph, const backend::Plan& plan,
                               const train::Config& config)
    : graph_(graph),
      precision_(config.plan.precision),
      batch_(config.batch_per_rank),
      optimiser_(config.optimiser.kind) {
  for (auto& choice : plan.choices()) {
    auto key = std::pair(choice.node, choice.phase);
    choices_.emplace(std::move(key), std::move(choice));
  }
}

OperationWork OperationWorks::work_of_update() const {
  const double array = sizeof(float) * static_cast<double>(graph_.parameter_elements());
  switch (optimiser_) {
    // Reads the parameter, its momentum and its gradient; writes the first two.
    case optim::Kind::sgd: return {.what = "SGD with momentum", .bytes = 5 * array};
    case optim::Kind::lars: return {.what = "LARS", .bytes = 7 * array};  // two more for the norms
    case optim::Kind::adamw: return {.what = "AdamW", .bytes = 7 * array};  // and second moment
  }
  core::fail(core::ExitStatus::internal, "unknown optimiser; please report it");
}

OperationWork OperationWorks::of(const train::OperationKey& key) const {
  const auto& [id, phase] = key;
  if (id == train::no_node) {
    if (phase != update) return {.what = std::string(phase)};
    return work_of_update();
  }
  Work work = work_of(graph_, id, phase, batch_, precision_);
  const auto choice = choices_.find({id, std::string(phase)});
  const bool has_choice = choice != choices_.end();
  if (has_choice) {
    work.flops *= choice->second.arithmetic;
    if (const auto& maps = choice->second.maps)
      work.bytes = *maps * graph_.cost(id).output_elements * static_cast<double>(batch_) *
                       element_bytes(precision_) +
                   parameter_bytes(graph_, id);
  }
  return {graph_.describe(id), has_choice ? choice->second.implementation : "", work.flops,
          work.bytes};
}

}  // namespace lockstep::study
