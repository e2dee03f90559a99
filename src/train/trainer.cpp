// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/trainer.hpp"

#include <numeric>

#include "checkpoint_saver.hpp"
#include "describe_run.hpp"
#include "event_list.hpp"
#include "instruments.hpp"
#include "lockstep/train/timing/summary.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "run_evaluation.hpp"
#include "run_schedule.hpp"
#include "stop_agreement.hpp"
#include "training_step.hpp"

namespace lockstep::train {

namespace {

/// Begins the activity in which rank 0 shows and writes an epoch, on all ranks: the other ranks
/// wait for it at the next collective call.
class WritingActivity final : public TrainingListener {
 public:
  /// `monitor` may be null. `run` must outlive the object.
  WritingActivity(core::ProgressMonitor* monitor, const RunState& run)
      : monitor_(monitor), run_(run) {}
  void epoch_end(record::EpochRecord&) override {
    core::begin_activity(monitor_, core::Activity::writing_run_file, run_.step);
  }

 private:
  core::ProgressMonitor* monitor_;
  const RunState& run_;
};

RunState restore(const TrainingContext& context, Checkpoints& checkpoints) {
  core::begin_activity(context.monitor, core::Activity::reading_checkpoint);
  return checkpoints.restore();
}

}  // namespace

/// The objects of a training, and the loop over its epochs and steps.
struct Trainer::Parts {
  Parts(const TrainingContext& context_, TrainingListener& listener);

  RunSummary run();
  record::EpochRecord train_epoch();
  void collect_step();
  CompletedStep describe_step(const StepResult& result) const;
  void accept(StepRequests requests);
  StepRequests requests_after(std::int64_t completed) const {
    return {.stop = core::StopSignal::requested(), .save = checkpoints.is_due(completed)};
  }
  bool is_finished() const { return schedule.is_over(state.step) && !evaluation.is_due(); }
  void begin(core::Activity activity) const {
    core::begin_activity(context.monitor, activity, state.step);
  }

  // Each member uses only those above it. The order is that of the start: the objects that the
  // ranks construct without each other; the step, whose captures change the tensors of a GPU; then
  // the state that is restored and then stored in these tensors; then what acts between two steps.
  // A signal ends the process before `stop` exists, so that it follows the restore.
  const TrainingContext context;
  const std::unique_ptr<Replica> replica;
  ReplicaPolicy policy;
  TrainingStep training_step;
  const RunSchedule schedule;
  Checkpoints checkpoints;
  RunState state;
  StopAgreement stop;
  CheckpointSaver saver;
  EventList events;
  RunEvaluation evaluation;
  RunDescription description;
};

Trainer::Parts::Parts(const TrainingContext& context_, TrainingListener& listener)
    : context(context_),
      replica(make_replica(context)),
      policy(context.config.reducer.kind, context.data_parallel, context.world),
      training_step(context, *replica, policy),
      schedule(context.config, static_cast<std::int64_t>(replica->sampler.steps_per_epoch())),
      checkpoints(context.config, context.graph, replica->state, context.data_parallel,
                  context.world, context.pipeline, training_step.reducer().state(),
                  {schedule.steps_per_epoch(), context.data.digest, context.options}),
      state(restore(context, checkpoints)),
      stop(context.world, context.config.checkpoint.grace_seconds),
      saver(context, *replica, policy, checkpoints, state, stop),
      evaluation(context, events, replica->evaluator, schedule, state, saver, stop),
      description(describe_run(context, *replica, training_step, schedule, checkpoints)) {
  description.first_step = state.step;
  description.is_finished = is_finished();
  add_instruments(events, context, *replica, schedule.steps_per_epoch(), description);
  events.add(saver);
  events.add(std::make_unique<WritingActivity>(context.monitor, state));
  if (context.world.rank() == 0) events.add(listener);
  context.backend.store(replica->state);  // from host memory to the device
  backend::LossScaling* const scaling = replica->plan->loss_scaling();
  if (scaling != nullptr && state.loss_scale) scaling->set_loss_scale(*state.loss_scale);
}

RunSummary Trainer::Parts::run() {
  Summariser summariser(context.world.size(), schedule.steps_per_epoch(),
                        schedule.steps_per_epoch() * context.config.global_batch);
  context.world.barrier();  // the clocks of all ranks start at the same time
  events.run_begin(core::host_seconds());
  if (!stop.agree_to_stop()) evaluation.run_after_resume();
  while (!schedule.is_over(state.step) && !stop.is_stopping()) {
    record::EpochRecord epoch = train_epoch();
    evaluation.run(epoch);
    begin(core::Activity::gathering_times);
    events.epoch_end(epoch);
    summariser.add(epoch);
    evaluation.require_finite(epoch);  // the run file has the epoch already
    if (saver.is_requested()) saver.save();
    stop.agree_to_stop();
  }
  RunSummary summary = summariser.summary();
  saver.save_last(summary);
  evaluation.add_to(summary);  // also accuracies of the epochs before a resume
  summary.last_step = state.step;
  if (!is_finished()) summary.status = record::RunStatus::preempted;
  if (stop.is_stopping()) summary.stop_signal = stop.agreed_signal();
  events.run_end(summary);
  context.world.barrier();  // no rank exits before rank 0 has saved
  return summary;
}

/// Trains to the end of the epoch, or until the run is stopped. Up to `training_step.depth()` steps
/// are in flight: `started` counts the steps that were started, `state.step` those whose results
/// are known. A checkpoint that was requested is saved when both are equal.
record::EpochRecord Trainer::Parts::train_epoch() {
  const std::int64_t first = state.step, end = schedule.end_of_epoch_after(first);
  record::EpochRecord epoch;
  epoch.epoch = schedule.epoch_after(first) + 1;
  // All ranks start the epoch at the same time. The time for which they wait for a delayed rank,
  // for example for rank 0 before the first epoch, is part of no measurement.
  context.world.barrier();
  events.epoch_begin();
  context.world.barrier();
  const double begin_seconds = core::host_seconds();
  replica->feed->start_epoch(schedule.epoch_after(first),
                             static_cast<std::size_t>(first % schedule.steps_per_epoch()));
  std::int64_t started = first;
  const auto may_start = [&] { return started < end && !saver.is_requested(); };
  const auto must_collect = [&] {
    return started - state.step >= training_step.depth() || !may_start();
  };
  // At the end of an epoch the checkpoint is saved after the evaluation, whose result it contains.
  const auto may_save = [&] {
    return saver.is_requested() && started == state.step && state.step < end;
  };
  while (state.step < end && !stop.is_stopping()) {
    if (may_start()) {
      training_step.start(started + 1,
                          schedule.coefficients_after(started, policy.gradient_scale()));
      ++started;
    }
    if (must_collect()) collect_step();
    if (may_save()) saver.save();
  }
  while (state.step < started) collect_step();
  epoch.seconds = core::host_seconds() - begin_seconds;
  begin(core::Activity::gathering_times);
  events.last_step_end(epoch);
  EpochAgreement agreement = policy.agree_on_epoch(context.backend.parameter_hash(replica->state),
                                                   requests_after(state.step), state.step);
  epoch.parameter_hash = std::move(agreement.parameter_hash);
  saver.set_compared();  // a save after this step need not compare the replicas again
  accept(agreement.requests);
  return epoch;
}

/// Waits for the oldest step in flight, and records its results.
void Trainer::Parts::collect_step() {
  const std::int64_t number = state.step + 1;
  const StepResult result = training_step.collect(number, requests_after(number));
  const CompletedStep step = describe_step(result);
  state.step = number;
  accept(result.totals.requests);
  events.step_end(step, result);
}

/// Describes the step after `state.step`.
CompletedStep Trainer::Parts::describe_step(const StepResult& result) const {
  const StepTotals& totals = result.totals;
  return {.step = state.step + 1,
          .total_steps = schedule.total_steps(),
          .epoch = schedule.epoch_after(state.step) + 1,
          .step_of_epoch = state.step % schedule.steps_per_epoch() + 1,
          .steps_per_epoch = schedule.steps_per_epoch(),
          .learning_rate = schedule.learning_rate_after(state.step),
          .loss = totals.loss_sum / static_cast<double>(totals.images),
          .images = totals.images,
          .seconds = std::accumulate(result.seconds.begin(), result.seconds.end(), 0.0)};
}

void Trainer::Parts::accept(StepRequests requests) {
  if (requests.stop) stop.request();
  if (requests.save) saver.request();
}

Trainer::Trainer(const TrainingContext& context, TrainingListener& listener)
    : parts_(std::make_unique<Parts>(context, listener)) {}
Trainer::~Trainer() = default;

RunSummary Trainer::run() { return parts_->run(); }
const RunDescription& Trainer::description() const { return parts_->description; }
const backend::ModelState& Trainer::state() const { return parts_->replica->state; }

ExtraSteps Trainer::extra_steps() {
  const std::int64_t per_epoch = parts_->schedule.steps_per_epoch(), done = parts_->state.step;
  return {*parts_->replica, parts_->training_step, (done + per_epoch - 1) / per_epoch, per_epoch,
          done};
}

}  // namespace lockstep::train
