#include "lockstep/train/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/train/weights.hpp"
#include "operation_clock.hpp"
#include "operation_work.hpp"
#include "plan_options.hpp"

namespace lockstep::train {

namespace {

constexpr int warm_up_steps = 1, steps = 3;
constexpr std::string_view upload = "upload";

struct Quiet final : core::GradientListener {
  void gradients_ready(std::size_t) override {}
};

/// Forward pass, backward pass and update with a timestamp at the end of each operation.
class TimedWork final : public backend::StepWork {
 public:
  TimedWork(backend::Plan& plan, OperationClock& clock, std::size_t parameters)
      : plan_(plan), clock_(clock), parameters_(parameters) {}

  void queue() override {
    clock_.begin_work();
    plan_.forward();
    plan_.backward(quiet_);
    plan_.update(0, parameters_);
    clock_.ended(no_node, OperationWorks::update);
  }
  /// The clock reserves its timestamps in the first step.
  bool is_capturable() const override { return false; }

 private:
  backend::Plan& plan_;
  OperationClock& clock_;
  std::size_t parameters_;
  Quiet quiet_;
};

/// Mean durations of the operations of a step, and of the whole step, in seconds.
struct TimedSteps {
  std::map<OperationKey, double> operations;
  double step = 0;
  OperationWorks works;
};

/// Measures the operations of training steps on random images.
TimedSteps time_steps(const Config& config, const graph::Graph& graph,
                      const backend::Backend& backend) {
  OperationClock clock;
  clock.set_enabled(true);
  backend::ModelState state = backend.make_state(graph);
  initialise(graph, config.seed, state);
  backend.store(state);
  backend::PlanOptions options = training_options(config, {}, nullptr, 0, 1);
  options.listener = &clock;
  const auto plan = backend.compile(graph, state, options);
  clock.attach(plan->timeline());
  const auto batch = static_cast<std::size_t>(config.batch_per_rank);
  std::vector<std::uint8_t> images(batch * static_cast<std::size_t>(graph.image().elements()));
  core::Random random(config.seed, core::RandomStream::test);
  for (auto& byte : images) byte = static_cast<std::uint8_t>(random.below(256));
  const std::vector<std::int32_t> labels(batch, 0);
  const auto executor = plan->make_step_executor(
      std::make_unique<TimedWork>(*plan, clock, graph.parameter_elements()));
  plan->set_sgd({.learning_rate = 1e-3F});
  TimedSteps timed{.works = OperationWorks(graph, *plan, config.precision, config.batch_per_rank)};
  for (int step = 0; step < warm_up_steps + steps; ++step) {
    executor->begin();
    plan->timeline().record(core::Timeline::start);
    clock.begin();
    plan->upload(images, labels);
    clock.ended(no_node, upload);
    executor->run();
    executor->collect();
    if (step < warm_up_steps) continue;
    for (const OperationTime& time : clock.times())
      timed.operations[time.key] += (time.end - time.begin) / steps;
    timed.step += clock.times().back().end / steps;
  }
  return timed;
}

}  // namespace

std::vector<backend::OperationChoice> planned_kernels(const Config& config,
                                                      const graph::Graph& graph,
                                                      const backend::Backend& backend) {
  return backend.choices(graph, training_options(config, {}, nullptr, 0, 1));
}

std::vector<double> measure_nodes(Config config, const graph::Graph& graph,
                                  const backend::Backend& backend) {
  config.batch_per_rank /= config.micro_batches;
  std::vector<double> seconds(graph.nodes().size());
  for (const auto& [key, duration] : time_steps(config, graph, backend).operations)
    if (key.first != no_node) seconds[static_cast<std::size_t>(key.first)] += duration;
  return seconds;
}

RooflineBounds measure_roofline(const Config& config, const graph::Graph& graph,
                                const backend::Backend& backend) {
  const backend::Ceilings ceilings = backend.ceilings(config.precision);
  if (ceilings.flops_per_second == 0) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--measure compares with a device's ceilings, which '{}' does not "
                           "measure; use --device cpu",
                           core::name(backend.device().kind())));
  }
  const TimedSteps timed = time_steps(config, graph, backend);
  std::vector<TimedOperation> operations;
  for (const auto& [key, seconds] : timed.operations) {
    if (key.second == upload) continue;
    OperationWork work = timed.works.of(key);
    operations.push_back({std::move(work.what), std::string(key.second),
                          std::move(work.implementation), work.flops, work.bytes, seconds});
  }
  RooflineBounds bounds = compute_roofline(ceilings, operations);
  bounds.seconds = timed.step;
  return bounds;
}

}  // namespace lockstep::train
