// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/trainer.hpp"

#include <limits>

#include "checkpoint_saver.hpp"
#include "gradient_communication.hpp"
#include "instruments.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "run_evaluation.hpp"
#include "run_plan.hpp"
#include "stop_agreement.hpp"
#include "training_step.hpp"

namespace lockstep::train {

namespace {

RunState restore(const TrainingContext& context, Checkpoints& checkpoints) {
  core::begin_activity(context.monitor, core::Activity::reading_checkpoint);
  return checkpoints.restore();
}

}  // namespace

struct Trainer::Parts {
  Parts(const TrainingContext& context_, Observer& observer_);

  RunSummary run();
  record::EpochRecord train_epoch();
  void collect_step();
  void accept(StepRequests requests);
  StepRequests requests_after(std::int64_t completed) const {
    return {.stop = core::StopSignal::requested(), .save = checkpoints.is_due(completed)};
  }
  bool is_finished() const { return plan.is_over(state.step) && !evaluation.is_due(); }
  void report(core::Activity activity) const {
    core::begin_activity(context.monitor, activity, state.step);
  }

  const TrainingContext context;
  Observer& observer;
  const std::unique_ptr<comm::GradientTransport> transport;
  const std::unique_ptr<Replica> replica;
  ReplicaPolicy policy;
  TrainingStep step;
  const RunPlan plan;
  Checkpoints checkpoints;
  RunState state;
  StopAgreement stop;
  CheckpointSaver saver;
  RunEvaluation evaluation;
  RunDescription description;
  Instruments instruments;
  double origin = 0;  ///< of the clock of the run, a time of `core::host_seconds`
};

Trainer::Parts::Parts(const TrainingContext& context_, Observer& observer_)
    : context(context_),
      observer(observer_),
      transport(make_transport(context)),
      replica(make_replica(context, *transport)),
      policy(context.config.reducer.kind, context.data_parallel, context.world),
      step(context, *replica, *transport, policy),
      plan(context.config, static_cast<std::int64_t>(replica->sampler.steps_per_epoch())),
      checkpoints(context.config, context.graph, replica->state, context.data_parallel,
                  context.world, context.pipeline, step.reducer().state(),
                  {plan.steps_per_epoch(), context.data.digest, context.options}),
      state(restore(context, checkpoints)),
      stop(context.world, context.config.checkpoint.grace_seconds),
      saver(context, *replica, policy, checkpoints, state, stop),
      evaluation(context, observer, replica->evaluator, plan, state, saver, stop),
      description(describe_run(context, *replica, *transport, step, plan, checkpoints)),
      instruments(context, *replica, plan.steps_per_epoch(), description.bucket_bytes.size(),
                  saver) {
  description.first_step = state.step;
  description.is_finished = is_finished();
  instruments.describe(description);
  context.backend.store(replica->state);
  backend::LossScaling* const scaling = replica->plan->loss_scaling();
  if (scaling != nullptr && state.loss_scale) scaling->set_loss_scale(*state.loss_scale);
}

RunSummary Trainer::Parts::run() {
  Summariser summariser(context.world.size(), plan.steps_per_epoch(),
                        plan.steps_per_epoch() * context.config.global_batch);
  context.world.barrier();  // the clocks of all ranks start at the same time
  origin = core::host_seconds();
  instruments.begin(origin);
  if (!stop.check()) evaluation.run_after_resume();
  while (!plan.is_over(state.step) && !stop.is_stopping()) {
    record::EpochRecord epoch = train_epoch();
    evaluation.run(epoch);
    report(core::Activity::gathering_times);
    instruments.add_to(epoch);
    summariser.add(epoch);
    report(core::Activity::writing_run_file);
    if (context.world.rank() == 0) observer.epoch_done(epoch);
    evaluation.require_finite(epoch);
    if (saver.is_requested()) saver.save();
    stop.check();
  }
  RunSummary summary = summariser.summary();
  saver.finish(summary);
  evaluation.add_to(summary);
  summary.last_step = state.step;
  summary.peak_memory_bytes = instruments.peak_bytes();
  if (!is_finished()) summary.status = record::RunStatus::preempted;
  if (stop.is_stopping()) summary.stop_signal = stop.signal();
  instruments.end();
  context.world.barrier();  // no rank exits before rank 0 has saved
  return summary;
}

/// Trains to the end of the epoch, or until the run is stopped.
record::EpochRecord Trainer::Parts::train_epoch() {
  const std::int64_t first = state.step, end = plan.end_of_epoch_after(first);
  record::EpochRecord record;
  record.epoch = plan.epoch_after(first) + 1;
  record.test_loss = record.test_accuracy = std::numeric_limits<double>::quiet_NaN();
  instruments.begin_epoch();
  const double begin = core::host_seconds();
  replica->feed->start_epoch(plan.epoch_after(first),
                             static_cast<std::size_t>(first % plan.steps_per_epoch()));
  std::int64_t queued = first;
  while (state.step < end && !stop.is_stopping()) {
    if (queued < end && !saver.is_requested()) {
      step.queue(queued + 1, plan.coefficients_after(queued, policy.gradient_scale()));
      ++queued;
    }
    const bool is_deep_enough = queued - state.step >= step.depth();
    if (is_deep_enough || queued == end || saver.is_requested()) collect_step();
    // At the end of an epoch the checkpoint is saved after the evaluation, because it contains the
    // result.
    if (saver.is_requested() && queued == state.step && state.step < end) saver.save();
  }
  while (state.step < queued) collect_step();
  record.seconds = core::host_seconds() - begin - saver.epoch_pause();
  report(core::Activity::gathering_times);
  instruments.end_epoch();
  for (const std::span<double> totals : instruments.log().totals()) policy.finish_steps(totals);
  EpochEnd end_of_epoch = policy.finish_epoch(context.backend.parameter_hash(replica->state),
                                              requests_after(state.step), state.step);
  record.parameter_hash = std::move(end_of_epoch.parameter_hash);
  saver.set_compared();
  accept(end_of_epoch.requests);
  return record;
}

/// Waits for the oldest step in flight, and records and reports its results.
void Trainer::Parts::collect_step() {
  const std::int64_t number = state.step + 1;
  const StepResult result = step.collect(number, requests_after(number));
  instruments.log().add(plan.schedule().at(state.step), result, core::host_seconds() - origin);
  state.step = number;
  accept(result.totals.requests);
  if (context.world.rank() == 0) observer.step_done(report_of(result, plan, number));
}

void Trainer::Parts::accept(StepRequests requests) {
  if (requests.stop) stop.stop();
  if (requests.save) saver.request();
}

Trainer::Trainer(const TrainingContext& context, Observer& observer)
    : parts_(std::make_unique<Parts>(context, observer)) {}
Trainer::~Trainer() = default;

RunSummary Trainer::run() { return parts_->run(); }
const RunDescription& Trainer::description() const { return parts_->description; }
const backend::ModelState& Trainer::state() const { return parts_->replica->state; }

ExtraSteps Trainer::extra_steps() {
  const std::int64_t per_epoch = parts_->plan.steps_per_epoch(), done = parts_->state.step;
  return {*parts_->replica, parts_->step, (done + per_epoch - 1) / per_epoch, per_epoch, done};
}

}  // namespace lockstep::train
