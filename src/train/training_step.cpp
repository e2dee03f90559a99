// SPDX-License-Identifier: BSD-3-Clause
#include "training_step.hpp"

#include <utility>

#include "gradient_communication.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

using record::Phase;

/// The work of every step after the copy of its inputs to the device. A GPU captures it once as a
/// CUDA graph and replays it, unless the reducer does not allow that.
class TrainingStep::Work final : public backend::StepWork {
 public:
  Work(const TrainingContext& context, Replica& replica, StepClock& clock,
       comm::GradientReducer& reducer, ParameterUpdate& update)
      : plan_(*replica.plan),
        statistics_(replica.statistics.get()),
        clock_(clock),
        reducer_(reducer),
        update_(update),
        parameters_(context.graph.parameter_elements()),
        may_capture_(context.config.cuda_graph == CudaGraph::on) {}

  void enqueue() override {
    if (statistics_ != nullptr) statistics_->set_enabled(true);
    enqueue_with(reducer_, update_);
  }
  void enqueue_without_communication() override {
    if (statistics_ != nullptr) statistics_->set_enabled(false);
    ParameterUpdate local(plan_);
    enqueue_with(*comm::make_empty_reducer(parameters_), local);
  }

  bool is_capturable() const override { return may_capture_ && reducer_.is_recordable(); }
  void throw_if_failed() override {
    reducer_.throw_if_failed();
    update_.throw_if_failed();
    if (statistics_ != nullptr) statistics_->throw_if_failed();
  }

 private:
  void enqueue_with(comm::GradientReducer& reducer, ParameterUpdate& update) {
    clock_.begin_work();
    reducer.begin_step();
    plan_.forward();
    clock_.end(Phase::forward);
    plan_.backward(clock_.observe(reducer));  // `overlap` starts the all-reduce of final buckets
    clock_.end(Phase::backward);
    for (std::size_t updated = 0; updated < parameters_;) {
      const std::size_t reduced = reducer.wait_beyond(updated);
      clock_.end(Phase::exposed_communication);
      update.update(updated, reduced - updated);
      clock_.end(Phase::update);
      updated = reduced;
    }
    update.distribute(clock_);  // with a parameter server
  }

  backend::Plan& plan_;
  EnabledStatisticsAllReduce* statistics_;  ///< null unless --bn sync
  StepClock& clock_;
  comm::GradientReducer& reducer_;
  ParameterUpdate& update_;
  std::size_t parameters_;  ///< number of elements
  bool may_capture_;
};

void TrainingStep::start(std::int64_t step, const optim::Coefficients& coefficients) {
  executor_->begin();
  clock_.begin(step);
  feed_.wait();
  clock_.end(Phase::data_wait);
  plan_.set_coefficients(coefficients);
  feed_.upload();
  clock_.end(Phase::upload);
  executor_->run();  // Work::enqueue, or its CUDA graph
}

StepResult TrainingStep::collect(std::int64_t step, StepRequests requests) {
  // The device may replay a CUDA graph, without calls of the host.
  core::begin_activity(monitor_, core::Activity::exposed_communication, step);
  const backend::BatchResult result = executor_->collect();
  core::begin_activity(monitor_, core::Activity::combining_results, step);
  const StepTotals totals = policy_.agree_on_step(result, requests, step);
  // If only one step may be in flight, the device was idle while the ranks exchanged the results:
  // this time is exposed communication.
  if (depth() == 1) {
    clock_.end(Phase::exposed_communication);
    plan_.timeline().finish_step();
  }
  // All steps have the same messages and phases, so that those of the step that was started last
  // are those of this step, too.
  comm::Traffic traffic = feed_.traffic();
  traffic += reducer_->traffic();
  traffic += update_.traffic();
  return {.totals = totals,
          .seconds = clock_.seconds(),
          .start_seconds = plan_.timeline().start_seconds(),
          .buckets = reducer_->bucket_times(),
          .traffic = traffic};
}

namespace {

std::unique_ptr<comm::GradientReducer> make_reducer(const TrainingContext& context,
                                                    Replica& replica) {
  core::begin_activity(context.monitor, core::Activity::preparing_all_reduce);
  const core::DataType type = context.backend.gradient_type(context.config.reducer.gradient_type);
  std::unique_ptr<comm::GradientReducer> reducer;
  together_over_groups(context.world, [&] {
    reducer = replica.transport->make_reducer(context.backend.gradients(replica.state, type),
                                              reducer_options(context), replica.plan->timeline());
  });
  return reducer;
}

}  // namespace

TrainingStep::TrainingStep(const TrainingContext& context, Replica& replica, ReplicaPolicy& policy)
    : world_(context.world),
      monitor_(context.monitor),
      feed_(*replica.feed),
      plan_(*replica.plan),
      policy_(policy),
      reducer_(make_reducer(context, replica)),
      update_(context, replica),
      clock_(plan_.timeline(), context.monitor, reducer_->bucket_sizes().size(),
             replica.operations.get()) {
  core::begin_activity(context.monitor, core::Activity::preparing_first_step);
  auto work = std::make_unique<Work>(context, replica, clock_, *reducer_, update_);
  // This program allocates memory, which may be full, only where no rank waits for another.
  together(context.world, [&] { executor_ = plan_.make_step_executor(std::move(work)); });
  if (backend::StepCaptures* const captures = executor_->captures()) captures->rehearse();
  capture();
}

/// Captures the work. NCCL may communicate during a capture, so the ranks agree after each of them.
void TrainingStep::capture() {
  backend::StepCaptures* const captures = executor_->captures();
  for (bool has_more = captures != nullptr; has_more;)
    together(world_, [&] { has_more = captures->capture(); });
}

}  // namespace lockstep::train
