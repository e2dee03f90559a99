// SPDX-License-Identifier: BSD-3-Clause
#include "backend.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/graph/graph.hpp"
#include "plan.hpp"

namespace lockstep::backend::reference {

ModelState ReferenceBackend::make_state(const graph::Graph& graph, optim::Kind optimiser,
                                        core::Buffer gradients) const {
  const std::size_t parameter_bytes = sizeof(float) * graph.parameter_elements();
  return {.parameters = core::Buffer(parameter_bytes),
          .gradients = std::move(gradients),
          .momentum = core::Buffer(parameter_bytes),
          .statistics = core::Buffer(sizeof(float) * graph.statistic_elements()),
          .second_moment = core::Buffer(optimiser == optim::Kind::adamw ? parameter_bytes : 0)};
}

std::unique_ptr<Plan> ReferenceBackend::compile(const graph::Graph& graph, ModelState& state,
                                                const PlanOptions& options) const {
  core::check(options.batch > 0, "a plan has a batch");
  PlanOptions watched = options;
  watched.progress = progress_;
  try {
    return make_plan(graph, state, watched);
  } catch (const std::bad_alloc&) {
    const auto bytes = static_cast<double>(memory_use(graph, options).plan());
    core::fail(core::ExitStatus::out_of_memory,
               fmt::format("no memory left for a plan of {} (batch {}); use a smaller batch",
                           core::format_bytes(bytes), options.batch));
  }
}

MemoryUse ReferenceBackend::memory(const graph::Graph& graph, const PlanOptions& options) const {
  return memory_use(graph, options);
}

std::vector<OperationChoice> ReferenceBackend::choices(const graph::Graph& graph,
                                                       const PlanOptions& options) const {
  return choices_of(graph, options.mode);
}

}  // namespace lockstep::backend::reference
