#include "lockstep/train/floor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <variant>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/train/weights.hpp"
#include "plan_options.hpp"

namespace lockstep::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int warm_up_steps = 1, steps = 3;

struct Quiet final : core::GradientListener {
  void filled_to(std::size_t) override {}
};

/// Adds up the seconds of each operation and phase over the steps.
class Stopwatch final : public backend::OperationListener {
 public:
  void begin() { last_ = Clock::now(); }
  void forget() { seconds_.clear(); }
  void ended(graph::NodeId node, std::string_view phase) override {
    const auto now = Clock::now();
    seconds_[{node, std::string(phase)}] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  const auto& seconds() const { return seconds_; }

 private:
  Clock::time_point last_;
  std::map<std::pair<graph::NodeId, std::string>, double> seconds_;
};

std::string text(core::ImageShape shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

/// What a person calls a node: operations of one name do the same work.
std::string describe(const graph::Graph& graph, const graph::Node& node) {
  const core::ImageShape in = node.inputs.empty() ? node.output : graph.node(node.inputs[0]).output;
  if (const auto* c = std::get_if<graph::Convolution>(&node.operation)) {
    return fmt::format("convolution {}x{}{}, {} -> {}", c->kernel, c->kernel,
                       c->stride == 1 ? "" : fmt::format(" stride {}", c->stride), text(in),
                       text(node.output));
  }
  if (std::holds_alternative<graph::BatchNorm>(node.operation))
    return "batch norm, add, ReLU, " + text(node.output);
  return node.name + ", " + text(in);
}

struct Work {
  double flops = 0, bytes = 0;
};

/// Of one image; `weights` of the batch. Each map is read or written once per pass over it: batch
/// norm passes over its input twice, forward and backward, because the statistics come first.
Work work_of(const graph::Graph& graph, graph::NodeId id, std::string_view phase,
             double element_bytes, double& weight_bytes) {
  const graph::Node& node = graph.node(id);
  const graph::NodeCost cost = graph.cost(id);
  const auto out = static_cast<double>(node.output.elements());
  const auto in =
      static_cast<double>(node.inputs.empty() ? 0 : graph.node(node.inputs[0]).output.elements());
  weight_bytes = 0;
  for (const std::size_t index : node.parameters)
    weight_bytes += sizeof(float) * static_cast<double>(graph.parameters()[index].elements);
  if (std::holds_alternative<graph::Convolution>(node.operation)) {
    const double flops = phase == "forward"         ? cost.forward_flops
                         : phase == "backward data" ? cost.backward_data_flops
                                                    : cost.backward_weight_flops;
    return {flops, (in + out) * element_bytes};
  }
  if (std::holds_alternative<graph::BatchNorm>(node.operation))
    return {0, (phase == "forward" ? 3 : 5) * out * element_bytes};
  const double flops = phase == "forward" ? cost.forward_flops
                                          : cost.backward_data_flops + cost.backward_weight_flops;
  return {flops, (in + out) * element_bytes};
}

}  // namespace

Floor measure_floor(const Config& config, const graph::Graph& graph,
                    const backend::Backend& backend) {
  Floor floor;
  floor.ceilings = backend.ceilings();
  if (floor.ceilings.flops_per_second == 0) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--measure compares with a device's ceilings, which '{}' does not "
                           "measure; use --device cpu",
                           name(backend.kind())));
  }
  Stopwatch watch;
  backend::ModelState state = backend.make_state(graph);
  initialise(graph, config.seed, state);
  backend::PlanOptions options = training_options(config, nullptr);
  options.listener = &watch;
  const auto plan = backend.compile(graph, state, options);
  const auto batch = static_cast<std::size_t>(config.batch_per_rank);
  std::vector<std::uint8_t> images(batch * static_cast<std::size_t>(graph.image().elements()));
  core::Random random(config.seed, core::RandomStream::test);
  for (auto& byte : images) byte = static_cast<std::uint8_t>(random.below(256));
  const std::vector<std::int32_t> labels(batch, 0);
  Quiet quiet;
  double update_seconds = 0;
  for (int step = 0; step < warm_up_steps + steps; ++step) {
    if (step == warm_up_steps) {
      watch.forget();
      floor.seconds = update_seconds = 0;
    }
    const auto begin = Clock::now();
    plan->upload(images, labels);
    watch.begin();
    plan->forward();
    plan->backward(quiet);
    const auto before_update = Clock::now();
    optim::update({.learning_rate = 1e-3F}, state.parameters.as<float>(),
                  state.gradients.as<float>(), state.momentum.as<float>());
    const auto end = Clock::now();
    update_seconds += std::chrono::duration<double>(end - before_update).count() / steps;
    floor.seconds += std::chrono::duration<double>(end - begin).count() / steps;
  }

  std::map<std::pair<graph::NodeId, std::string>, backend::OperationChoice> choices;
  for (auto& choice : plan->choices()) {
    auto key = std::pair(choice.node, choice.phase);
    choices.emplace(std::move(key), std::move(choice));
  }
  const auto element_bytes = config.precision == core::Precision::bf16 ? 2.0 : 4.0;
  std::map<std::tuple<std::string, std::string, std::string>, FloorRow> rows;
  const auto add = [&](const std::string& what, const std::string& phase,
                       const std::string& implementation, Work work, double seconds) {
    FloorRow& row = rows[{what, phase, implementation}];
    row.what = what;
    row.phase = phase;
    row.implementation = implementation;
    row.count += 1;
    row.flops += work.flops;
    row.bytes += work.bytes;
    row.seconds += seconds;
    row.floor_seconds += std::max(work.flops / floor.ceilings.flops_per_second,
                                  work.bytes / floor.ceilings.bytes_per_second);
  };
  for (const auto& [key, seconds] : watch.seconds()) {
    const auto& [id, phase] = key;
    double weight_bytes = 0;
    Work work = work_of(graph, id, phase, element_bytes, weight_bytes);
    const auto choice = choices.find(key);
    const bool has_choice = choice != choices.end();
    work.flops *= static_cast<double>(batch) * (has_choice ? choice->second.arithmetic : 1);
    work.bytes = work.bytes * static_cast<double>(batch) + weight_bytes;
    add(describe(graph, graph.node(id)), phase, has_choice ? choice->second.implementation : "",
        work, seconds / steps);
  }
  const auto parameters = static_cast<double>(graph.parameter_elements());
  add("SGD with momentum", "update", "", {0, 5 * sizeof(float) * parameters}, update_seconds);
  for (auto& [key, row] : rows) {
    floor.floor_seconds += row.floor_seconds;
    floor.rows.push_back(std::move(row));
  }
  std::ranges::sort(floor.rows, std::greater(), &FloorRow::seconds);
  return floor;
}

}  // namespace lockstep::train
