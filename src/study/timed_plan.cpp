// SPDX-License-Identifier: BSD-3-Clause
#include "timed_plan.hpp"

#include "lockstep/core/random.hpp"
#include "lockstep/train/weights.hpp"
#include "profile_rows.hpp"

namespace lockstep::study {

namespace {

/// The part of a step, with a timestamp at the end of the update.
class TimedWork final : public backend::StepWork {
 public:
  TimedWork(backend::Plan& plan, train::OperationClock& clock, std::size_t parameters,
            StepPart part)
      : plan_(plan), clock_(clock), parameters_(parameters), part_(part) {}

  void enqueue() override {
    clock_.begin_work();
    plan_.forward();
    plan_.backward(no_listener_);
    if (part_ == StepPart::forward_backward) return;
    plan_.update(0, parameters_);
    clock_.ended(train::no_node, ProfileRows::update);
  }

 private:
  backend::Plan& plan_;
  train::OperationClock& clock_;
  std::size_t parameters_;
  StepPart part_;
  core::NoGradientListener no_listener_;
};

}  // namespace

TimedPlan::TimedPlan(backend::PlanOptions options, const graph::Graph& graph,
                     const backend::Backend& backend, StepPart part)
    : state_(backend.make_state(graph, options.optimiser)),
      images_(static_cast<std::size_t>(options.batch * graph.image().elements())),
      labels_(static_cast<std::size_t>(options.batch), 0) {
  train::initialise(graph, options.seed, state_);
  backend.store(state_);
  options.listener = &clock_;
  plan_ = backend.compile(graph, state_, options);
  clock_.attach(plan_->timeline(), backend.device().queue());
  clock_.set_enabled(true);
  core::Random random(options.seed, core::RandomStream::test);
  for (auto& byte : images_) byte = static_cast<std::uint8_t>(random.below(256));
  executor_ = plan_->make_step_executor(
      std::make_unique<TimedWork>(*plan_, clock_, graph.parameter_elements(), part));
  plan_->set_coefficients({.learning_rate = 1e-3F});
  if (backend::StepCaptures* const captures = executor_->captures()) {
    captures->rehearse();  // the clock reserves its timestamps
    while (captures->capture()) continue;
  }
}

double TimedPlan::step() {
  executor_->begin();
  plan_->timeline().record(core::Timeline::start);
  clock_.begin();
  plan_->upload(images_, labels_);
  clock_.ended(train::no_node, upload_phase);
  executor_->run();
  executor_->collect();
  ++steps_;
  const std::vector<train::OperationTime> times = clock_.times();
  for (const train::OperationTime& time : times) {
    auto& by_step = seconds_[time.key];
    by_step.resize(steps_);
    by_step.back() += time.end - time.begin;
  }
  return times.back().end;
}

void TimedPlan::forget() {
  seconds_.clear();
  steps_ = 0;
}

}  // namespace lockstep::study
