#include "lockstep/train/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/train/weights.hpp"
#include "plan_options.hpp"

namespace lockstep::train {

namespace {

constexpr int warm_up_steps = 1, steps = 3;

constexpr graph::NodeId no_node = -1;
constexpr std::string_view upload = "upload", update = "update";

struct Quiet final : core::GradientListener {
  void gradients_ready(std::size_t) override {}
};

/// Records a timestamp at the end of each operation and sums the durations of each operation over
/// the steps.
class Stopwatch final : public backend::OperationListener {
 public:
  void begin(core::Timeline& timeline) {
    timeline_ = &timeline;
    ended_.clear();
    timeline.record(core::Timeline::start);
  }
  void ended(graph::NodeId node, std::string_view phase) override {
    if (ended_.size() == ends_.size()) ends_.push_back(timeline_->reserve(1)[0]);
    timeline_->record(ends_[ended_.size()]);
    ended_.emplace_back(node, phase);
  }
  /// Adds the durations of the completed step to the sums; returns the duration of the whole step
  /// in seconds.
  double add() {
    double last = 0;
    for (std::size_t i = 0; i < ended_.size(); ++i) {
      const double now = timeline_->seconds(ends_[i]);
      seconds_[ended_[i]] += now - last;
      last = now;
    }
    return last;
  }
  void forget() { seconds_.clear(); }
  const auto& seconds() const { return seconds_; }

 private:
  using Key = std::pair<graph::NodeId, std::string>;
  core::Timeline* timeline_ = nullptr;
  std::vector<Key> ended_;             ///< operations of this step, in the order of their ends
  std::vector<core::Timestamp> ends_;  ///< timestamp of the end of each operation
  std::map<Key, double> seconds_;
};

/// Forward pass, backward pass and update with a timestamp at the end of each operation.
class TimedWork final : public backend::StepWork {
 public:
  TimedWork(backend::Plan& plan, Stopwatch& watch, std::size_t parameters)
      : plan_(plan), watch_(watch), parameters_(parameters) {}

  void queue() override {
    plan_.forward();
    plan_.backward(quiet_);
    plan_.update(0, parameters_);
    watch_.ended(no_node, update);
  }
  /// The stopwatch reserves its timestamps in the first step.
  bool is_capturable() const override { return false; }

 private:
  backend::Plan& plan_;
  Stopwatch& watch_;
  std::size_t parameters_;
  Quiet quiet_;
};

struct Work {
  double flops = 0, bytes = 0;
};

/// Returns the floating-point operations and the memory traffic of one image in a phase.
Work work_of(const graph::NodeCost& cost, std::string_view phase, double element_bytes) {
  if (phase == "forward") return {cost.forward_flops, cost.forward_values * element_bytes};
  const double bytes = cost.backward_values * element_bytes;
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

std::vector<backend::OperationChoice> planned_kernels(const Config& config,
                                                      const graph::Graph& graph,
                                                      const backend::Backend& backend) {
  return backend.choices(graph, training_options(config, {}, nullptr, 0, 1));
}

RooflineBounds measure_roofline(const Config& config, const graph::Graph& graph,
                                const backend::Backend& backend) {
  const backend::Ceilings ceilings = backend.ceilings(config.precision);
  double step_seconds = 0;
  if (ceilings.flops_per_second == 0) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--measure compares with a device's ceilings, which '{}' does not "
                           "measure; use --device cpu",
                           core::name(backend.device().kind())));
  }
  Stopwatch watch;
  backend::ModelState state = backend.make_state(graph);
  initialise(graph, config.seed, state);
  backend.store(state);
  backend::PlanOptions options = training_options(config, {}, nullptr, 0, 1);
  options.listener = &watch;
  const auto plan = backend.compile(graph, state, options);
  const auto batch = static_cast<std::size_t>(config.batch_per_rank);
  std::vector<std::uint8_t> images(batch * static_cast<std::size_t>(graph.image().elements()));
  core::Random random(config.seed, core::RandomStream::test);
  for (auto& byte : images) byte = static_cast<std::uint8_t>(random.below(256));
  const std::vector<std::int32_t> labels(batch, 0);
  const auto executor = plan->make_step_executor(
      std::make_unique<TimedWork>(*plan, watch, graph.parameter_elements()));
  plan->set_sgd({.learning_rate = 1e-3F});
  for (int step = 0; step < warm_up_steps + steps; ++step) {
    if (step == warm_up_steps) {
      watch.forget();
      step_seconds = 0;
    }
    executor->begin();
    watch.begin(plan->timeline());
    plan->upload(images, labels);
    watch.ended(no_node, upload);
    executor->run();
    executor->collect();
    step_seconds += watch.add() / steps;
  }

  std::map<std::pair<graph::NodeId, std::string>, backend::OperationChoice> choices;
  for (auto& choice : plan->choices()) {
    auto key = std::pair(choice.node, choice.phase);
    choices.emplace(std::move(key), std::move(choice));
  }
  const bool is_half =
      config.precision == core::Precision::bf16 || config.precision == core::Precision::fp16;
  const auto element_bytes = is_half ? 2.0 : 4.0;
  std::vector<TimedOperation> operations;
  const auto parameters = static_cast<double>(graph.parameter_elements());
  for (const auto& [key, seconds] : watch.seconds()) {
    const auto& [id, phase] = key;
    if (id == no_node) {
      if (phase == update)
        operations.push_back(
            {"SGD with momentum", phase, "", 0, 5 * sizeof(float) * parameters, seconds / steps});
      continue;
    }
    Work work = work_of(graph.cost(id), phase, element_bytes);
    const auto choice = choices.find(key);
    const bool has_choice = choice != choices.end();
    work.flops *= static_cast<double>(batch) * (has_choice ? choice->second.arithmetic : 1);
    work.bytes = work.bytes * static_cast<double>(batch) + parameter_bytes(graph, id);
    operations.push_back({graph.describe(id), phase,
                          has_choice ? choice->second.implementation : "", work.flops, work.bytes,
                          seconds / steps});
  }
  RooflineBounds bounds = compute_roofline(ceilings, operations);
  bounds.seconds = step_seconds;
  return bounds;
}

}  // namespace lockstep::train
