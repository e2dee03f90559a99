// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline_report.hpp"

#include <cstdint>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

std::vector<StageDescription> describe_stages(const Pipeline* pipeline, comm::Communicator& world,
                                              const backend::Plan& plan) {
  std::vector<StageDescription> stages;
  if (pipeline == nullptr) return stages;
  const std::uint64_t bytes = plan.memory().total();
  const std::vector<std::uint64_t> all_bytes = comm::gather(world, bytes);
  if (world.rank() != 0) return stages;
  for (const graph::Graph& graph : pipeline->graphs) {
    const std::size_t first = stages.empty() ? 0 : 1;  // after the boundary input
    stages.push_back({.first_layer = graph.nodes()[first].name,
                      .last_layer = graph.nodes().back().name,
                      .parameters = static_cast<std::int64_t>(graph.parameter_count()),
                      .memory_bytes = all_bytes[stages.size()]});
  }
  return stages;
}

PipelineReport::PipelineReport(backend::Plan& plan, comm::Communicator& world)
    : plan_(static_cast<PipelinePlan&>(plan)), world_(world) {}

void PipelineReport::begin_epoch() { plan_.reset_seconds(); }

void PipelineReport::add_to(record::EpochRecord& epoch) {
  const PipelineSeconds& seconds = plan_.seconds();
  const auto gather = [&](double value) { return comm::gather(world_, value); };
  epoch.measurements["/epochs/pipeline_busy_seconds"] = gather(seconds.busy);
  epoch.measurements["/epochs/pipeline_transfer_seconds"] = gather(seconds.transfer);
  epoch.measurements["/epochs/pipeline_wait_seconds"] = gather(seconds.wait);
}

}  // namespace lockstep::train
