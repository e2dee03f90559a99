// SPDX-License-Identifier: BSD-3-Clause
#include "profile_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::study {

namespace {

double element_bytes(core::Precision precision) {
  return precision == core::Precision::bf16 || precision == core::Precision::fp16 ? 2.0 : 4.0;
}

/// Returns the work for one image, without the parameters.
Work work_of_image(const graph::NodeCost& cost, std::string_view phase, core::Precision precision) {
  if (phase == "forward" || phase == backend::recompute_phase)
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

void add(std::span<const train::OperationTime> times, std::vector<OperationSum>& sums) {
  for (const train::OperationTime& time : times) {
    const auto known = std::ranges::find(sums, time.key, &OperationSum::key);
    OperationSum& sum =
        known != sums.end() ? *known : sums.emplace_back(OperationSum{.key = time.key});
    sum.calls += 1;
    sum.seconds += time.end - time.begin;
  }
}

ProfileRows::ProfileRows(const graph::Graph& graph, const backend::Plan& plan,
                         const backend::PlanOptions& options)
    : graph_(graph),
      precision_(options.precision),
      batch_(options.batch),
      optimiser_(options.optimiser) {
  for (auto& choice : plan.choices()) {
    auto key = std::pair(choice.node, choice.phase);
    choices_.emplace(std::move(key), std::move(choice));
  }
}

void ProfileRows::set_update(record::ProfiledOperation& row) const {
  const double array = sizeof(float) * static_cast<double>(graph_.parameter_elements());
  switch (optimiser_) {
    case optim::Kind::sgd:
      row.what = "SGD with momentum";
      row.bytes = 5 * array;  // reads parameter, momentum and gradient; writes the first two
      return;
    case optim::Kind::lars:
      row.what = "LARS";
      row.bytes = 7 * array;  // two more for the norms
      return;
    case optim::Kind::adamw:
      row.what = "AdamW";
      row.bytes = 7 * array;  // two more for the second moment
      return;
  }
}

record::ProfiledOperation ProfileRows::row(const OperationSum& sum, std::int64_t steps) const {
  const auto& [id, phase] = sum.key;
  const auto count = static_cast<double>(steps);
  record::ProfiledOperation row{.name = std::string(phase),
                                .what = std::string(phase),
                                .phase = std::string(phase),
                                .implementation = {},
                                .ceiling = "none",
                                .calls = static_cast<double>(sum.calls) / count,
                                .seconds = {sum.seconds / count}};
  if (id == train::no_node) {
    if (phase == update) set_update(row);
    return row;
  }
  row.name = graph_.node(id).name;
  row.what = graph_.describe(id);
  const Work work = work_of(graph_, id, phase, batch_, precision_);
  row.flops = work.flops;
  row.bytes = work.bytes;
  const auto choice = choices_.find({id, row.phase});
  if (choice == choices_.end()) return row;
  row.implementation = choice->second.implementation;
  row.flops *= choice->second.arithmetic;
  if (const auto& maps = choice->second.maps)
    row.bytes = *maps * graph_.cost(id).output_elements * static_cast<double>(batch_) *
                    element_bytes(precision_) +
                parameter_bytes(graph_, id);
  return row;
}

void apply_ceilings(const backend::Ceilings& measured, record::Profile& profile) {
  if (!(measured.flops_per_second > 0) || !(measured.bytes_per_second > 0)) return;
  profile.flops_per_second = measured.flops_per_second;
  profile.bytes_per_second = measured.bytes_per_second;
  profile.ceiling_source = "measured: a matrix product of " + measured.product +
                           ", and a copy that is too large for the caches";
  std::string faster;
  for (const auto& row : profile.operations) {
    const double rate = row.flops / row.seconds[0];
    if (!(rate > profile.flops_per_second)) continue;
    profile.flops_per_second = rate;
    faster = fmt::format("; {} ({}) was faster than the product", row.name, row.phase);
  }
  profile.ceiling_source += faster;
  for (auto& row : profile.operations) {
    if (row.flops == 0 && row.bytes == 0) continue;
    const double of_flops = row.flops / profile.flops_per_second;
    const double of_bytes = row.bytes / profile.bytes_per_second;
    if (of_bytes > row.seconds[0]) {
      row.ceiling = "cache";
      row.bound_seconds = of_flops;
    } else {
      row.ceiling = of_bytes > of_flops ? "memory" : "compute";
      row.bound_seconds = std::max(of_bytes, of_flops);
    }
    row.bound_seconds = std::min(row.bound_seconds, row.seconds[0]);  // rounding errors
  }
}

}  // namespace lockstep::study
