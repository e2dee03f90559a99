#include "lockstep/train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "checkpoint/checkpoints.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/train/agreement.hpp"
#include "pipeline/pipeline_report.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "stop_agreement.hpp"
#include "timing/epoch_readings.hpp"
#include "timing/rank_clocks.hpp"
#include "timing/step_log.hpp"
#include "timing/telemetry.hpp"
#include "training_step.hpp"

namespace lockstep::train {

using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::unique_ptr<comm::GradientTransport> make_transport(const TrainingContext& context) {
  std::unique_ptr<comm::GradientTransport> transport;
  together_over_groups(context.world, [&] {
    transport = comm::make_gradient_transport(
        context.data_parallel, context.backend.device().queue(),
        {.kind = context.config.transport, .allow_sharing = context.config.allow_gpu_sharing});
  });
  return transport;
}

optim::LearningRateSchedule make_schedule(const Config& config, std::int64_t steps_per_epoch,
                                          std::int64_t total_steps) {
  return {
      .kind = config.schedule,
      .peak = config.peak_learning_rate(),
      .total_steps = total_steps,
      .warmup_steps = std::llround(config.warmup_epochs * static_cast<double>(steps_per_epoch))};
}

}  // namespace

struct Trainer::Parts {
  Parts(const TrainingContext& context_, Observer& observer_);

  void queue_step();
  void collect_step();
  Progress restore();
  record::EpochRecord train_epoch();
  void begin_clock();
  void report_step(const StepResult& result);
  void save_checkpoint();
  bool save_and_wait();
  void evaluate(record::EpochRecord& epoch);
  void evaluate_resumed_state();
  bool continue_evaluation();
  void stop_if_signalled() { is_stopping = is_stopping || stop.signal() != 0; }
  RunSummary run();

  void report(core::Activity activity) const {
    core::begin_activity(context.progress, activity, progress.step);
  }
  /// The stages of a pipeline have different buckets, which a run file cannot contain.
  std::span<const std::size_t> bucket_bytes() const {
    return context.has_stages() ? std::span<const std::size_t>() : step.reducer().bucket_bytes();
  }
  bool is_over() const { return progress.step >= total_steps; }
  bool evaluation_is_due() const;
  StepRequests requests_after(std::int64_t completed) const {
    return {.stop = core::StopSignal::requested(), .save = checkpoints.is_due(completed)};
  }
  void accept(StepRequests requests) {
    is_stopping = is_stopping || requests.stop;
    is_saving = is_saving || requests.save;
  }
  optim::Sgd sgd() const;

  TrainingContext context;
  Observer& observer;
  std::unique_ptr<comm::GradientTransport> transport;
  std::unique_ptr<Replica> replica;
  std::unique_ptr<ReplicaPolicy> policy;
  TrainingStep step;
  const std::int64_t steps_per_epoch;
  const std::int64_t total_steps;
  optim::LearningRateSchedule schedule;
  StepLog log;
  RankClocks clocks;
  Checkpoints checkpoints;
  Progress progress;
  Summariser summariser;
  StopAgreement stop;
  std::vector<StageDescription> stages;  ///< see Trainer::stages
  std::int64_t queued = 0;               ///< steps that were queued, including completed ones
  bool is_stopping = false;
  bool is_saving = false;
  std::int64_t compared_step = 0;   ///< after which the replicas were last compared
  double checkpoint_pause = 0;      ///< seconds for which checkpoints stopped this epoch
  double checkpoint_seconds = 0;    ///< the same since the last epoch was recorded
  double refused_save_seconds = 0;  ///< of `RunSummary`
  Clock::time_point origin;         ///< of the clock of the run
  std::optional<Telemetry> telemetry;
  EpochReadings readings;
};

Trainer::Parts::Parts(const TrainingContext& context_, Observer& observer_)
    : context(context_),
      observer(observer_),
      transport(make_transport(context)),
      replica(make_replica(context, *transport)),
      policy(make_replica_policy(context.config.reducer, context.data_parallel, context.world)),
      step(context, *replica, *transport, *policy),
      steps_per_epoch(static_cast<std::int64_t>(replica->sampler.steps_per_epoch())),
      total_steps(context.config.steps > 0 ? context.config.steps
                                           : context.config.epochs * steps_per_epoch),
      schedule(make_schedule(context.config, steps_per_epoch, total_steps)),
      log(static_cast<std::size_t>(steps_per_epoch), bucket_bytes().size()),
      clocks(context.world, replica->plan->timeline()),
      checkpoints(context.config, context.graph, replica->state, context.data_parallel,
                  context.world, context.pipeline, step.reducer().state(),
                  {steps_per_epoch, context.data.digest, context.options, schedule}),
      progress(restore()),
      summariser(context.world.size(), steps_per_epoch,
                 steps_per_epoch * context.config.global_batch),
      stop(context.world, context.config.grace_seconds),
      stages(describe_stages(context.pipeline, context.world, *replica->plan)),
      queued(progress.step),
      readings(context.backend.device(), context.world, telemetry) {
  context.backend.store(replica->state);
  backend::LossScaling* const scaling = replica->plan->loss_scaling();
  if (scaling != nullptr && progress.loss_scale) scaling->set_loss_scale(*progress.loss_scale);
  if (context.config.telemetry_hertz > 0) {
    telemetry.emplace(context.backend.device(), context.world, context.config.telemetry_hertz);
  }
}

Progress Trainer::Parts::restore() {
  core::begin_activity(context.progress, core::Activity::reading_checkpoint);
  return checkpoints.restore();
}

/// Returns the coefficients of the update in the next queued step.
optim::Sgd Trainer::Parts::sgd() const {
  return {.learning_rate = static_cast<float>(schedule.at(queued)),
          .momentum = static_cast<float>(context.config.momentum),
          .weight_decay = static_cast<float>(context.config.weight_decay),
          .nesterov = context.config.nesterov,
          .gradient_scale = policy->gradient_scale()};
}

void Trainer::Parts::queue_step() {
  step.queue(queued + 1, sgd());
  ++queued;
}

/// Waits for the oldest step in flight, and records and reports its results.
void Trainer::Parts::collect_step() {
  const std::int64_t number = progress.step + 1;
  StepResult result = step.collect(number, requests_after(number));
  if (context.has_stages()) result.buckets = {};
  log.add(schedule.at(progress.step), result, seconds_since(origin));
  progress.step = number;
  accept(result.totals.requests);
  if (context.world.rank() == 0) report_step(result);
}

record::EpochRecord Trainer::Parts::train_epoch() {
  const std::int64_t epoch = progress.step / steps_per_epoch;
  const std::int64_t end = std::min(total_steps, (epoch + 1) * steps_per_epoch);
  const bool is_reducing = !bucket_bytes().empty();
  if (is_reducing) clocks.begin_epoch();
  // Rank 0 may have written files since the last epoch. Without this barrier the other ranks would
  // wait for it in their first step and record that time as exposed communication.
  context.world.barrier();
  readings.begin_epoch();
  const auto begin = Clock::now();
  checkpoint_pause = 0;
  log.clear();
  reset_pipeline_seconds(context.pipeline, *replica->plan);
  replica->feed->start_epoch(epoch, static_cast<std::size_t>(progress.step % steps_per_epoch));
  while (progress.step < end && !is_stopping) {
    if (queued < end && !is_saving) queue_step();
    const bool is_deep_enough = queued - progress.step >= step.depth();
    if (is_deep_enough || queued == end || is_saving) collect_step();
    // At the end of an epoch the checkpoint is saved after the evaluation, because it contains the
    // result.
    if (is_saving && queued == progress.step && progress.step < end) save_checkpoint();
  }
  while (progress.step < queued) collect_step();
  const double seconds = seconds_since(begin) - checkpoint_pause;
  readings.end_epoch();

  report(core::Activity::gathering_times);
  if (is_reducing) clocks.end_epoch();
  for (const std::span<double> totals : log.totals()) policy->finish_steps(totals);
  record::EpochRecord record = log.gather(context.world);
  clocks.add_to(record);
  record.epoch = epoch + 1;
  record.seconds = seconds;
  readings.add_to(record);
  add_pipeline_seconds(context.pipeline, context.world, *replica->plan, record);
  record.measurements["/epochs/checkpoint_seconds"] = {std::exchange(checkpoint_seconds, 0)};
  const EpochEnd end_of_epoch = policy->finish_epoch(context.backend.parameter_hash(replica->state),
                                                     requests_after(progress.step), progress.step);
  record.parameter_hash = end_of_epoch.parameter_hash;
  compared_step = progress.step;
  accept(end_of_epoch.requests);
  return record;
}

void Trainer::Parts::report_step(const StepResult& result) {
  double seconds = 0;
  for (const double phase : result.seconds) seconds += phase;
  observer.step_done({.step = progress.step,
                      .total_steps = total_steps,
                      .epoch = (progress.step - 1) / steps_per_epoch + 1,
                      .step_of_epoch = (progress.step - 1) % steps_per_epoch + 1,
                      .steps_per_epoch = steps_per_epoch,
                      .loss = result.totals.loss_sum / static_cast<double>(result.totals.images),
                      .images = result.totals.images,
                      .seconds = seconds});
}

/// Starts to save a checkpoint; no step may be in flight. All ranks return at the same time, so
/// that the duration is part of no step. After a signal, does not begin a save that the grace time
/// does not permit. Collective.
void Trainer::Parts::save_checkpoint() {
  is_saving = false;
  const auto begin = Clock::now();
  report(core::Activity::saving_checkpoint);
  // A replica that differs from the others must not be saved.
  if (compared_step != progress.step) {
    policy->require_equal(context.backend.parameter_hash(replica->state), progress.step);
    compared_step = progress.step;
  }
  together(context.world, [&] { context.backend.fetch(replica->state); });
  progress.loss_scale.reset();
  if (const backend::LossScaling* const scaling = replica->plan->loss_scaling())
    progress.loss_scale = scaling->loss_scale();
  if (const auto end = stop.excessive_seconds(checkpoints.expected_seconds())) {
    refused_save_seconds = *end;
  } else {
    checkpoints.save(progress);
  }
  stop_if_signalled();
  const double seconds = seconds_since(begin);
  checkpoint_pause += seconds;
  checkpoint_seconds += seconds;
}

/// Saves a checkpoint and waits until it is on the disk. Returns whether the state is saved.
/// Collective.
bool Trainer::Parts::save_and_wait() {
  save_checkpoint();
  report(core::Activity::waiting_for_checkpoint);
  return checkpoints.finish() && checkpoints.kept_step() == progress.step;
}

/// Returns whether the options require an evaluation of the current state that has not been done
/// yet.
bool Trainer::Parts::evaluation_is_due() const {
  const std::int64_t every = context.config.evaluate_every;
  if (every < 0 || progress.step == 0 || progress.evaluated_step == progress.step) return false;
  if (is_over()) return true;
  return every > 0 && progress.step % (every * steps_per_epoch) == 0;
}

void Trainer::Parts::evaluate(record::EpochRecord& epoch) {
  const auto begin = Clock::now();
  if (context.world.rank() == 0) observer.evaluating();
  report(core::Activity::evaluation);
  const auto evaluation = replica->evaluator->run([this] { return continue_evaluation(); });
  if (!evaluation) return;  // the process that resumes the run evaluates this state
  epoch.test_loss = evaluation->loss();
  epoch.test_accuracy = evaluation->accuracy();
  epoch.evaluation_seconds = seconds_since(begin);
  progress.evaluated_step = progress.step;
  progress.last_correct = evaluation->correct;
  progress.best_correct = std::max(progress.best_correct, evaluation->correct);
}

/// Saves a checkpoint when a signal arrives during an evaluation. Returns whether to continue the
/// evaluation: it may take half of the grace time. Collective.
bool Trainer::Parts::continue_evaluation() {
  const bool was_stopping = is_stopping;
  stop_if_signalled();
  if (!is_stopping) return true;
  if (!was_stopping) {
    save_and_wait();
    report(core::Activity::evaluation);
  }
  return stop.permits(context.config.grace_seconds / 2);
}

/// Evaluates the resumed state if that is due: the previous process may have been killed after
/// saving the last step of an epoch and before evaluating it. Collective.
void Trainer::Parts::evaluate_resumed_state() {
  if (!evaluation_is_due()) return;
  record::EpochRecord epoch;
  epoch.epoch = (progress.step - 1) / steps_per_epoch + 1;
  evaluate(epoch);
  if (!evaluation_is_due() && context.world.rank() == 0) observer.resumed_state_evaluated(epoch);
}

/// Starts the clock of the run, at the same time on all ranks, and the telemetry. Collective.
void Trainer::Parts::begin_clock() {
  context.world.barrier();
  origin = Clock::now();
  if (telemetry) telemetry->begin(origin);
}

RunSummary Trainer::Parts::run() {
  begin_clock();
  stop_if_signalled();
  if (!is_stopping) evaluate_resumed_state();
  while (!is_over() && !is_stopping) {
    record::EpochRecord epoch = train_epoch();
    if (evaluation_is_due()) {
      // The sender of the signal may kill the process during the evaluation, so the state is saved
      // first; a resumed run then repeats the evaluation.
      if (is_stopping) save_and_wait();
      evaluate(epoch);
    }
    if (telemetry) epoch.telemetry = telemetry->gather();
    summariser.add(epoch);
    report(core::Activity::writing_run_file);
    if (context.world.rank() == 0) observer.epoch_done(epoch);
    if (is_saving) save_checkpoint();
    stop_if_signalled();
  }
  RunSummary summary = summariser.summary();
  summary.checkpoint_saved = progress.step > 0 && save_and_wait();
  summary.kept_step = checkpoints.kept_step();
  summary.refused_save_seconds = refused_save_seconds;
  summary.last_step = progress.step;
  summary.peak_memory_bytes = readings.peak_bytes();
  if (progress.best_correct >= 0) {
    // The accuracies are those of the whole run, also if this process resumed it.
    const auto images = static_cast<double>(context.data.test->size());
    summary.best_test_accuracy = static_cast<double>(progress.best_correct) / images;
    if (progress.last_correct >= 0) {
      summary.last_test_accuracy = static_cast<double>(progress.last_correct) / images;
    }
  }
  if (!is_over() || evaluation_is_due()) summary.status = record::RunStatus::preempted;
  if (is_stopping) summary.stop_signal = stop.signal();
  if (telemetry) telemetry->end();
  context.world.barrier();  // no rank exits before rank 0 has saved
  return summary;
}

Trainer::Trainer(const TrainingContext& context, Observer& observer)
    : parts_(std::make_unique<Parts>(context, observer)) {}
Trainer::~Trainer() = default;

RunSummary Trainer::run() { return parts_->run(); }
ExtraSteps Trainer::extra_steps() {
  const std::int64_t per_epoch = parts_->steps_per_epoch;
  const std::int64_t done = parts_->progress.step;
  return {*parts_->replica, parts_->step, (done + per_epoch - 1) / per_epoch, per_epoch, done};
}
std::int64_t Trainer::steps_per_epoch() const { return parts_->steps_per_epoch; }
std::int64_t Trainer::total_steps() const { return parts_->total_steps; }
std::int64_t Trainer::first_step() const { return parts_->progress.step; }
const std::string& Trainer::run_id() const { return parts_->checkpoints.run_id(); }
std::int64_t Trainer::part() const { return parts_->checkpoints.part(); }
const std::vector<std::string>& Trainer::warnings() const { return parts_->checkpoints.warnings(); }
bool Trainer::is_finished() const { return parts_->is_over() && !parts_->evaluation_is_due(); }
std::span<const std::size_t> Trainer::bucket_bytes() const { return parts_->bucket_bytes(); }
const comm::AllReduceChoice& Trainer::all_reduce() const { return parts_->step.reducer().choice(); }
const comm::GradientTransport& Trainer::transport() const { return *parts_->transport; }
std::vector<backend::OperationChoice> Trainer::kernels() const {
  return parts_->replica->plan->choices();
}
backend::TimestampOverhead Trainer::timestamp_overhead() const {
  return parts_->step.timestamp_overhead();
}
std::optional<std::vector<std::string>> Trainer::telemetry_interfaces() const {
  if (!parts_->telemetry) return std::nullopt;
  return parts_->telemetry->interfaces();
}
std::string Trainer::host_energy_source() const {
  return parts_->telemetry ? parts_->telemetry->host_energy_source() : "not measured";
}
const std::vector<StageDescription>& Trainer::stages() const { return parts_->stages; }
const backend::ModelState& Trainer::state() const { return parts_->replica->state; }

}  // namespace lockstep::train
