// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/train/agreement.hpp"
#include "pipeline_schedule.hpp"

namespace lockstep::train {

namespace {

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

/// Cuts the network by the times that rank 0 measures. Collective.
std::vector<graph::Graph> cut_by_times(const Config& config, const graph::Graph& network,
                                       comm::Communicator& world, const NodeTimer& node_seconds) {
  std::vector<double> seconds(network.nodes().size());
  together(world, [&] {
    if (world.rank() != 0) return;
    seconds = node_seconds();
    core::PeakMemory().begin_interval();  // the peak of the whole network is not that of a stage
  });
  comm::broadcast(world, seconds);
  std::vector<graph::Graph> graphs;
  // A device that does not measure operations has 0 seconds for all of them.
  const bool is_measured = std::ranges::any_of(seconds, [](double value) { return value > 0; });
  together(world, [&] {
    graphs = is_measured ? network.cut(config.pipeline.stages, seconds)
                         : network.cut(config.pipeline.stages);
  });
  return graphs;
}

std::vector<graph::Graph> cut_as_given(const Config& config, const graph::Graph& network) {
  if (config.pipeline.cuts == "flops") return network.cut(config.pipeline.stages);
  const std::vector<std::string> firsts = names_in(config.pipeline.cuts);
  if (std::ssize(firsts) != config.pipeline.stages - 1) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--stage-cuts {} gives the first layers of {} stages after the first, "
                           "but --pipeline-stages {} requires {}",
                           config.pipeline.cuts, firsts.size(), config.pipeline.stages,
                           config.pipeline.stages - 1));
  }
  return network.cut_before(firsts);
}

}  // namespace

std::int64_t Pipeline::in_flight() const {
  return most_in_flight(pipeline_actions(schedule, stage, count(), micro_batches));
}

std::unique_ptr<Pipeline> make_pipeline(const Config& config, const graph::Graph& network,
                                        comm::Communicator& world, const NodeTimer& node_seconds) {
  if (config.pipeline.stages == 1 && config.pipeline.micro_batches == 1) return nullptr;
  std::vector<graph::Graph> graphs;
  together(world, [&] {
    // Fails before anything is measured if there are too many stages.
    graphs = network.cut(config.pipeline.stages);
    if (config.pipeline.cuts != "auto") graphs = cut_as_given(config, network);
  });
  if (config.pipeline.cuts == "auto" && config.pipeline.stages > 1)
    graphs = cut_by_times(config, network, world, node_seconds);
  const int stage = world.rank() % config.pipeline.stages;
  const int replica = world.rank() / config.pipeline.stages;
  return std::unique_ptr<Pipeline>(new Pipeline{.stage = stage,
                                                .micro_batches = config.pipeline.micro_batches,
                                                .schedule = config.pipeline.schedule,
                                                .network = network,
                                                .graphs = std::move(graphs),
                                                .stages = world.split(replica, stage),
                                                .replicas = world.split(stage, replica)});
}

}  // namespace lockstep::train
