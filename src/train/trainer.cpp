#include "lockstep/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "checkpoints.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "replica.hpp"
#include "replicas.hpp"
#include "step_clock.hpp"
#include "step_log.hpp"
#include "step_sums.hpp"
#include "stop_signal.hpp"

namespace lockstep::train {

using record::Phase;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::unique_ptr<comm::GradientReducer> make_reducer(const Workplace& place,
                                                    comm::GradientTransport& transport,
                                                    Replica& replica, core::DataType gradient_type,
                                                    std::size_t buckets) {
  core::begin_activity(place.progress, "preparing the all-reduce");
  return transport.make_reducer(place.backend.gradients(replica.state, gradient_type),
                                reducer_options(place), replica.runner->timeline(),
                                StepClock::count_marks(buckets));
}

}  // namespace

struct Trainer::Parts {
  Parts(const Workplace& workplace, Observer& observer_);

  void queue_step();
  void step_body();
  void collect_step();
  Progress restore();
  record::EpochRecord train_epoch();
  void add_readings(const backend::SensorReading& reading, record::EpochRecord& epoch) const;
  void report_step(const StepTotals& totals);
  bool save_checkpoint();
  void evaluate(record::EpochRecord& epoch);
  void evaluate_resumed_state();
  int stop_signal_of_any_rank();
  RunSummary run();

  void report(const char* activity) const {
    core::begin_activity(place.progress, activity, progress.step);
  }
  bool is_over() const { return progress.step >= total_steps; }
  bool evaluation_is_due() const;
  void agree_on_requests();
  Wishes wishes() const { return {stop.requested(), checkpoints.is_due(progress.step + 1)}; }

  Workplace place;
  Observer& observer;
  const bool is_independent;  ///< --reducer none: no communication, the baseline
  std::unique_ptr<comm::GradientTransport> transport;
  const core::DataType gradient_type;  ///< data type of the gradients in device memory
  std::unique_ptr<Replica> replica;
  backend::StepRunner& runner;
  const std::size_t buckets;  ///< number of gradient buckets, also if nothing is reduced
  std::unique_ptr<comm::GradientReducer> reducer;
  const std::int64_t steps_per_epoch;
  const std::int64_t total_steps;
  optim::LearningRateSchedule schedule;
  optim::Sgd sgd;
  const std::size_t parameter_elements;
  StepSums sums;
  StepLog log;
  Checkpoints checkpoints;
  Progress progress;
  Summariser summariser;
  StopSignal stop;
  StepClock clock;
  std::int64_t queued = 0;  ///< steps that were enqueued, including completed ones
  bool is_stopping = false;
  bool is_saving = false;
  double checkpoint_pause = 0;  ///< seconds that checkpoints took in this epoch
};

Trainer::Parts::Parts(const Workplace& workplace, Observer& observer_)
    : place(workplace),
      observer(observer_),
      is_independent(place.config.reducer == comm::ReducerKind::none),
      transport(comm::make_gradient_transport(
          place.communicator, place.backend.queue(),
          {.kind = place.config.transport, .allow_sharing = place.config.allow_gpu_sharing})),
      gradient_type(place.backend.gradient_type(place.config.gradient_type)),
      replica(make_replica(place, *transport, gradient_type)),
      runner(*replica->runner),
      buckets(comm::bucket_lengths(place.graph.parameter_elements(), place.config.bucket_bytes())
                  .size()),
      reducer(make_reducer(place, *transport, *replica, gradient_type, buckets)),
      steps_per_epoch(static_cast<std::int64_t>(replica->sampler.steps_per_epoch())),
      total_steps(place.config.steps > 0 ? place.config.steps
                                         : place.config.epochs * steps_per_epoch),
      schedule{.kind = place.config.schedule,
               .peak = place.config.peak_learning_rate(),
               .total_steps = total_steps,
               .warmup_steps =
                   std::llround(place.config.warmup_epochs * static_cast<double>(steps_per_epoch))},
      sgd{.learning_rate = 0,
          .momentum = static_cast<float>(place.config.momentum),
          .weight_decay = static_cast<float>(place.config.weight_decay),
          .nesterov = place.config.nesterov,
          .gradient_scale = is_independent ? 1 : 1 / static_cast<float>(place.communicator.size())},
      parameter_elements(place.graph.parameter_elements()),
      sums(place.communicator, is_independent),
      log(static_cast<std::size_t>(steps_per_epoch), reducer->bucket_bytes().size()),
      checkpoints(place.config, place.graph, replica->state, place.communicator,
                  {steps_per_epoch, place.data.digest}),
      progress(restore()),
      summariser(place.communicator.size(), steps_per_epoch,
                 steps_per_epoch * place.config.global_batch),
      clock(runner.timeline(), place.progress, buckets),
      queued(progress.step) {
  runner.timeline().expect(StepClock::count_marks(buckets));
  report("preparing the first step");
  runner.record([this] { step_body(); }, reducer->is_recordable(), [this] { reducer->check(); });
  place.backend.store(replica->state);
  if (progress.loss_scale) replica->plan->set_loss_scale(*progress.loss_scale);
}

Progress Trainer::Parts::restore() {
  core::begin_activity(place.progress, "reading a checkpoint");
  return checkpoints.restore();
}

/// Enqueues one training step: the work that differs between steps (batch and learning rate), and
/// the body.
void Trainer::Parts::queue_step() {
  runner.begin();
  clock.begin(queued + 1);
  replica->feed->wait();
  clock.end(Phase::data_wait);
  replica->feed->upload();
  clock.end(Phase::upload);
  sgd.learning_rate = static_cast<float>(schedule.at(queued));
  replica->plan->set_sgd(sgd);
  runner.run();
  ++queued;
}

/// Enqueues the work that is the same in every step; a GPU captures it once in a CUDA graph and
/// replays it, unless the reducer does not allow that.
void Trainer::Parts::step_body() {
  clock.begin_body();
  reducer->begin_step();
  replica->plan->forward();
  clock.end(Phase::forward);
  replica->plan->backward(*reducer);
  clock.end(Phase::backward);
  for (std::size_t updated = 0; updated < parameter_elements;) {
    const std::size_t count = reducer->wait_beyond(updated) - updated;
    clock.end(Phase::exposed_communication);
    replica->plan->update(updated, count);
    clock.end(Phase::update);
    updated += count;
  }
}

/// Waits for the oldest step in flight, and exchanges its results and requests with the other
/// ranks.
void Trainer::Parts::collect_step() {
  const backend::BatchResult result = runner.collect();
  const StepTotals totals = sums.exchange(result, wishes(), progress.step + 1);
  // If only one step may be in flight, the device was idle during the exchange: the exchange is
  // exposed communication.
  if (runner.depth() == 1) clock.end(Phase::exposed_communication);
  log.add(schedule.at(progress.step), totals, clock.seconds(), reducer->bucket_times());
  ++progress.step;
  is_stopping = is_stopping || totals.stop;
  is_saving = is_saving || (totals.save && !is_independent);
  if (place.communicator.rank() == 0) report_step(totals);
}

record::EpochRecord Trainer::Parts::train_epoch() {
  const std::int64_t epoch = progress.step / steps_per_epoch;
  const std::int64_t end = std::min(total_steps, (epoch + 1) * steps_per_epoch);
  // Rank 0 may have written files since the last epoch. Without this barrier the other ranks would
  // wait for it in their first step and record that time as exposed communication.
  place.communicator.barrier();
  const double energy_before = place.backend.read_sensors().energy_joules;
  const auto begin = Clock::now();
  checkpoint_pause = 0;
  log.clear();
  replica->feed->start_epoch(epoch, static_cast<std::size_t>(progress.step % steps_per_epoch));
  while (progress.step < end && !is_stopping) {
    if (queued < end && !is_saving) queue_step();
    const bool is_deep_enough = queued - progress.step >= runner.depth();
    if (is_deep_enough || queued == end || is_saving) collect_step();
    // At the end of an epoch the checkpoint is saved after the evaluation, because it contains the
    // result.
    if (is_saving && queued == progress.step && progress.step < end) save_checkpoint();
  }
  while (progress.step < queued) collect_step();
  const double seconds = seconds_since(begin) - checkpoint_pause;
  backend::SensorReading reading = place.backend.read_sensors();
  reading.energy_joules -= energy_before;

  report("gathering the times of the epoch");
  place.backend.fetch(replica->state, backend::StatePart::parameters);
  record::EpochRecord record = log.gather(place.communicator, is_independent);
  record.epoch = epoch + 1;
  record.seconds = seconds;
  add_readings(reading, record);
  if (is_independent) {
    agree_on_requests();
  } else {
    record.parameter_hash = require_equal_replicas(
        place.communicator, replica->state.parameters.as<float>(), progress.step);
  }
  return record;
}

/// Collective.
void Trainer::Parts::add_readings(const backend::SensorReading& reading,
                                  record::EpochRecord& epoch) const {
  const auto gather = [&](double value) { return place.communicator.gather(std::span(&value, 1)); };
  epoch.energy_joules = gather(reading.energy_joules);
  epoch.utilisation = gather(reading.utilisation);
  epoch.memory_used_bytes = gather(reading.memory_bytes);
}

void Trainer::Parts::report_step(const StepTotals& totals) {
  double seconds = 0;
  for (const double phase : clock.seconds()) seconds += phase;
  observer.step_done({.step = progress.step,
                      .total_steps = total_steps,
                      .epoch = (progress.step - 1) / steps_per_epoch + 1,
                      .step_of_epoch = (progress.step - 1) % steps_per_epoch + 1,
                      .steps_per_epoch = steps_per_epoch,
                      .loss = totals.loss_sum / static_cast<double>(totals.images),
                      .images = totals.images,
                      .seconds = seconds});
}

/// Agrees on requests to stop and to save a checkpoint. Independent replicas do not communicate in
/// a step, but only at the end of an epoch. Collective.
void Trainer::Parts::agree_on_requests() {
  std::array requests{stop.requested() ? 1.0 : 0.0, checkpoints.is_due(progress.step) ? 1.0 : 0.0};
  place.communicator.sum(std::span<double>(requests));
  is_stopping = requests[0] > 0;
  is_saving = requests[1] > 0;
}

/// Saves a checkpoint; no step may be in flight. All ranks return at the same time, so that the
/// duration is part of no step. Returns whether the state is saved. Collective.
bool Trainer::Parts::save_checkpoint() {
  is_saving = false;
  const auto begin = Clock::now();
  report("saving a checkpoint");
  place.backend.fetch(replica->state);
  progress.loss_scale = replica->plan->loss_scale();
  const bool is_saved = checkpoints.save(progress);
  checkpoint_pause += seconds_since(begin);
  return is_saved;
}

/// Returns whether the options require an evaluation of the current state that has not been done
/// yet.
bool Trainer::Parts::evaluation_is_due() const {
  const std::int64_t every = place.config.evaluate_every;
  if (every < 0 || progress.step == 0 || progress.evaluated_step == progress.step) return false;
  if (is_over()) return true;
  return every > 0 && progress.step % (every * steps_per_epoch) == 0;
}

void Trainer::Parts::evaluate(record::EpochRecord& epoch) {
  const auto begin = Clock::now();
  if (place.communicator.rank() == 0) observer.evaluating();
  report("evaluation");
  const Evaluation evaluation = replica->evaluator->run();
  epoch.test_loss = evaluation.loss();
  epoch.test_accuracy = evaluation.accuracy();
  epoch.evaluation_seconds = seconds_since(begin);
  progress.evaluated_step = progress.step;
  progress.last_correct = evaluation.correct;
  progress.best_correct = std::max(progress.best_correct, evaluation.correct);
}

/// Evaluates the resumed state if that is due: the previous process may have been killed after
/// saving the last step of an epoch and before evaluating it. Collective.
void Trainer::Parts::evaluate_resumed_state() {
  if (!evaluation_is_due()) return;
  record::EpochRecord epoch;
  epoch.epoch = (progress.step - 1) / steps_per_epoch + 1;
  evaluate(epoch);
  if (place.communicator.rank() == 0) observer.resumed_state_evaluated(epoch);
}

/// Collective.
int Trainer::Parts::stop_signal_of_any_rank() {
  std::array number{static_cast<double>(stop.number())};
  place.communicator.maximum(number);
  return static_cast<int>(number[0]);
}

RunSummary Trainer::Parts::run() {
  evaluate_resumed_state();
  while (!is_over() && !is_stopping) {
    record::EpochRecord epoch = train_epoch();
    if (evaluation_is_due()) {
      // The sender of the signal may kill the process during the evaluation, so the state is saved
      // first; a resumed run then repeats the evaluation.
      if (is_stopping) save_checkpoint();
      evaluate(epoch);
    }
    summariser.add(epoch);
    report("writing the run file");
    if (place.communicator.rank() == 0) observer.epoch_done(epoch);
    if (is_saving) save_checkpoint();
  }
  RunSummary summary = summariser.summary();
  summary.checkpoint_saved = save_checkpoint();
  summary.last_step = progress.step;
  if (progress.best_correct >= 0) {
    // The accuracies are those of the whole run, also if this process resumed it.
    const auto images = static_cast<double>(place.data.test.size());
    summary.best_test_accuracy = static_cast<double>(progress.best_correct) / images;
    if (progress.last_correct >= 0) {
      summary.last_test_accuracy = static_cast<double>(progress.last_correct) / images;
    }
  }
  if (!is_over()) {
    summary.status = record::RunStatus::preempted;
    summary.stop_signal = stop_signal_of_any_rank();
  }
  place.communicator.barrier();  // no rank exits before rank 0 has saved
  return summary;
}

Trainer::Trainer(const Workplace& workplace, Observer& observer)
    : parts_(std::make_unique<Parts>(workplace, observer)) {}
Trainer::~Trainer() = default;

RunSummary Trainer::run() { return parts_->run(); }
std::int64_t Trainer::steps_per_epoch() const { return parts_->steps_per_epoch; }
std::int64_t Trainer::total_steps() const { return parts_->total_steps; }
std::int64_t Trainer::first_step() const { return parts_->progress.step; }
const std::string& Trainer::run_id() const { return parts_->checkpoints.run_id(); }
std::int64_t Trainer::part() const { return parts_->checkpoints.part(); }
bool Trainer::is_finished() const { return parts_->is_over() && !parts_->evaluation_is_due(); }
std::span<const std::size_t> Trainer::bucket_bytes() const {
  return parts_->reducer->bucket_bytes();
}
const comm::AllReduceChoice& Trainer::all_reduce() const { return parts_->reducer->choice(); }
std::string Trainer::transport() const { return parts_->transport->library_version(); }
std::vector<backend::OperationChoice> Trainer::kernels() const {
  return parts_->replica->plan->choices();
}
backend::ClockCost Trainer::clock_cost() const { return parts_->runner.clock_cost(); }
const backend::ModelState& Trainer::state() const { return parts_->replica->state; }

}  // namespace lockstep::train
