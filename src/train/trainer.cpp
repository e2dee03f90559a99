#include "lockstep/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "batch_feed.hpp"
#include "checkpoints.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/weights.hpp"
#include "plan_options.hpp"
#include "replicas.hpp"
#include "step_clock.hpp"
#include "step_log.hpp"
#include "step_sums.hpp"
#include "stop_signal.hpp"
#include "watchdog.hpp"

namespace lockstep::train {

using record::Phase;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

data::DistributedSampler make_sampler(const Workplace& place) {
  const std::size_t images = place.data.train.size();
  require_enough_images(place.config, images);
  const auto global_batch = static_cast<std::size_t>(place.config.global_batch);
  return {images, global_batch, place.communicator.size(), place.config.seed,
          place.config.last_batch};
}

/// What a rank can make without the others.
struct Replica {
  /// `replicas`: for batch norm over all of them, else null.
  Replica(const Workplace& place, core::StatisticsSum* replicas, core::Buffer gradients);

  data::DistributedSampler sampler;
  backend::ModelState state;
  std::unique_ptr<backend::Plan> plan;
  std::unique_ptr<BatchFeed> feed;
  std::optional<Evaluator> evaluator;
  std::unique_ptr<backend::StepRunner> runner;
};

Replica::Replica(const Workplace& place, core::StatisticsSum* replicas, core::Buffer gradients)
    : sampler(make_sampler(place)),
      state(place.backend.make_state(place.graph, std::move(gradients))),
      plan(place.backend.compile(place.graph, state, training_options(place.config, replicas))),
      feed(make_batch_feed(place.config, place.data.train, sampler, place.communicator.rank(),
                           *plan)),
      runner(place.backend.make_step_runner(*plan)) {
  if (place.config.evaluate_every >= 0) {
    evaluator.emplace(place.config, place.graph, place.data.test, place.backend, state,
                      place.communicator);
  }
  initialise(place.graph, place.config.seed, state);
}

std::unique_ptr<Replica> make_replica(const Workplace& place, comm::GradientTransport& transport,
                                      core::DataType gradient_type) {
  core::Buffer gradients =
      transport.allocate(place.graph.parameter_elements() * core::size_of(gradient_type));
  core::StatisticsSum* const replicas =
      place.config.batch_norm == BatchNormMode::sync ? &transport.statistics_sum() : nullptr;
  std::unique_ptr<Replica> replica;
  together(place.communicator,
           [&] { replica = std::make_unique<Replica>(place, replicas, std::move(gradients)); });
  return replica;
}

comm::ReducerOptions reducer_options(const Workplace& place) {
  const Config& config = place.config;
  // Hosts would time their ways, and the one taken decides in which order values are summed.
  const bool is_free = config.all_reduce == comm::AllReduceWay::automatic;
  const bool is_fixed = config.deterministic && is_free && place.backend.queue().is_host();
  return {.kind = config.reducer,
          .bucket_bytes = static_cast<std::size_t>(config.bucket_mib * (1 << 20)),
          .gradient_type = config.gradient_type,
          .way = is_fixed ? comm::AllReduceWay::pieces : config.all_reduce};
}

}  // namespace

struct Trainer::Parts {
  Parts(const Workplace& workplace, Observer& observer_);

  void queue_step();
  void step_body();
  void collect_step();
  record::EpochRecord train_epoch();
  void add_readings(const backend::SensorReading& reading, record::EpochRecord& epoch) const;
  void report_step(const StepTotals& totals);
  void save_checkpoint();
  void evaluate(record::EpochRecord& epoch);
  RunSummary run();

  bool is_over() const { return progress.step >= total_steps; }
  bool evaluation_is_due() const;
  Wishes wishes() const { return {stop.requested(), checkpoints.is_due(progress.step + 1)}; }

  Workplace place;
  Observer& observer;
  const bool is_independent;  ///< nothing travels: the baseline without communication
  std::unique_ptr<comm::GradientTransport> transport;
  const core::DataType gradient_type;  ///< in the device's memory
  std::unique_ptr<Replica> replica;
  backend::StepRunner& runner;
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
  Watchdog watchdog;
  StepClock clock;
  std::int64_t queued = 0;  ///< steps, those that are done included
  bool is_stopping = false;
  bool is_saving = false;
  double checkpoint_pause = 0;  ///< seconds of this epoch spent on checkpoints
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
      reducer(transport->make_reducer(place.backend.gradients(replica->state, gradient_type),
                                      reducer_options(place), runner.timeline(),
                                      StepClock::first_free_mark)),
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
      progress(checkpoints.restore()),
      summariser(place.communicator.size(), steps_per_epoch),
      watchdog(std::chrono::seconds(place.config.watchdog_seconds),
               fmt::format("rank {} on {}", place.communicator.rank(),
                           record::describe_process().hostname)),
      clock(runner.timeline(), watchdog),
      queued(progress.step) {
  runner.timeline().expect(StepClock::first_free_mark);
  runner.record([this] { step_body(); }, reducer->is_recordable(), [this] { reducer->check(); });
  place.backend.store(replica->state);
}

/// One mini-batch through the rooms: what differs from step to step, and the body.
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

/// The same work in every step; a GPU records it once and replays it.
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

/// The oldest step under way has been done: its results go to everybody.
void Trainer::Parts::collect_step() {
  const backend::BatchResult result = runner.collect();
  const StepTotals totals = sums.exchange(result, wishes(), progress.step + 1);
  // Where no other step is under way, the device has waited for the ranks as well.
  if (runner.depth() == 1) clock.end(Phase::exposed_communication);
  log.add(schedule.at(progress.step), totals, clock.seconds(), reducer->bucket_times());
  ++progress.step;
  is_stopping = is_stopping || totals.stop;
  is_saving = is_saving || totals.save;
  if (place.communicator.rank() == 0) report_step(totals);
}

record::EpochRecord Trainer::Parts::train_epoch() {
  const std::int64_t epoch = progress.step / steps_per_epoch;
  const std::int64_t end = std::min(total_steps, (epoch + 1) * steps_per_epoch);
  const double energy_before = place.backend.read_sensors().energy_joules;
  const auto begin = Clock::now();
  checkpoint_pause = 0;
  log.clear();
  replica->feed->start_epoch(epoch, static_cast<std::size_t>(progress.step % steps_per_epoch));
  while (progress.step < end && !is_stopping) {
    if (queued < end && !is_saving) queue_step();
    const bool is_deep_enough = queued - progress.step >= runner.depth();
    if (is_deep_enough || queued == end || is_saving) collect_step();
    if (is_saving && queued == progress.step) save_checkpoint();
  }
  while (progress.step < queued) collect_step();
  const double seconds = seconds_since(begin) - checkpoint_pause;
  backend::SensorReading reading = place.backend.read_sensors();
  reading.energy_joules -= energy_before;

  watchdog.progress(progress.step, "gathering the epoch's times");
  place.backend.fetch(replica->state, backend::StatePart::parameters);
  record::EpochRecord record = log.gather(place.communicator, is_independent);
  record.epoch = epoch + 1;
  record.seconds = seconds;
  add_readings(reading, record);
  if (is_independent) {
    std::array is_stopped{stop.requested() ? 1.0 : 0.0};
    place.communicator.sum(std::span<double>(is_stopped));
    is_stopping = is_stopped[0] > 0;
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

/// With no step under way.
void Trainer::Parts::save_checkpoint() {
  is_saving = false;
  if (is_stopping) return;  // the last one follows
  const auto begin = Clock::now();
  watchdog.progress(progress.step, "checkpoint");
  place.backend.fetch(replica->state);
  checkpoints.save(progress);
  checkpoint_pause += seconds_since(begin);
}

bool Trainer::Parts::evaluation_is_due() const {
  const std::int64_t every = place.config.evaluate_every;
  if (every < 0 || (is_stopping && !is_over())) return false;
  if (is_over()) return true;
  return every > 0 && (progress.step / steps_per_epoch) % every == 0;
}

void Trainer::Parts::evaluate(record::EpochRecord& epoch) {
  const auto begin = Clock::now();
  if (place.communicator.rank() == 0) observer.evaluating();
  const Evaluation evaluation =
      replica->evaluator->run([this] { watchdog.progress(progress.step, "evaluation"); });
  epoch.test_loss = evaluation.loss();
  epoch.test_accuracy = evaluation.accuracy();
  epoch.evaluation_seconds = seconds_since(begin);
  progress.best_correct = std::max(progress.best_correct, evaluation.correct);
}

RunSummary Trainer::Parts::run() {
  while (!is_over() && !is_stopping) {
    record::EpochRecord epoch = train_epoch();
    if (evaluation_is_due()) evaluate(epoch);
    summariser.add(epoch);
    if (place.communicator.rank() == 0) observer.epoch_done(epoch);
  }
  watchdog.progress(progress.step, "checkpoint");
  place.backend.fetch(replica->state);
  RunSummary summary = summariser.summary();
  summary.checkpoint_saved = checkpoints.save(progress);
  summary.last_step = progress.step;
  if (progress.best_correct >= 0) {
    // Of the whole run, where this process went on from a checkpoint.
    summary.best_test_accuracy =
        static_cast<double>(progress.best_correct) / static_cast<double>(place.data.test.size());
  }
  if (!is_over()) summary.status = record::RunStatus::preempted;
  place.communicator.barrier();  // nobody leaves before rank 0 has saved
  return summary;
}

Trainer::Trainer(const Workplace& workplace, Observer& observer)
    : parts_(std::make_unique<Parts>(workplace, observer)) {}
Trainer::~Trainer() = default;

RunSummary Trainer::run() { return parts_->run(); }
std::int64_t Trainer::steps_per_epoch() const { return parts_->steps_per_epoch; }
std::int64_t Trainer::total_steps() const { return parts_->total_steps; }
std::int64_t Trainer::first_step() const { return parts_->progress.step; }
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
