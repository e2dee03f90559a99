#include "lockstep/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "checkpoints.hpp"
#include "lockstep/comm/replica_sum.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/weights.hpp"
#include "plan_options.hpp"
#include "replicas.hpp"
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
  Replica(const Workplace& place, core::Buffer gradients);

  data::DistributedSampler sampler;
  data::DataLoader loader;
  backend::ModelState state;
  comm::ReplicaSum batch_norm_sum;
  std::unique_ptr<backend::Plan> plan;
  std::optional<Evaluator> evaluator;
};

Replica::Replica(const Workplace& place, core::Buffer gradients)
    : sampler(make_sampler(place)),
      loader(place.data.train, sampler,
             {.batch_per_rank = static_cast<std::size_t>(place.config.batch_per_rank),
              .rank = place.communicator.rank(),
              .threads = place.config.loader_threads,
              .augmentation = place.config.augment,
              .seed = place.config.seed}),
      state(place.backend.make_state(place.graph, std::move(gradients))),
      batch_norm_sum(place.communicator),
      plan(place.backend.compile(
          place.graph, state,
          training_options(place.config, place.config.batch_norm == BatchNormMode::sync
                                             ? &batch_norm_sum
                                             : nullptr))) {
  if (place.config.evaluate_every >= 0) {
    evaluator.emplace(place.config, place.graph, place.data.test, place.backend, state,
                      place.communicator);
  }
  initialise(place.graph, place.config.seed, state);
}

std::unique_ptr<Replica> make_replica(const Workplace& place) {
  core::Buffer gradients =
      place.communicator.allocate(place.graph.parameter_elements() * sizeof(float));
  std::unique_ptr<Replica> replica;
  together(place.communicator,
           [&] { replica = std::make_unique<Replica>(place, std::move(gradients)); });
  return replica;
}

std::unique_ptr<comm::GradientReducer> make_reducer(const Workplace& place,
                                                    std::span<float> gradients) {
  return comm::make_gradient_reducer(
      place.communicator, gradients,
      {.kind = place.config.reducer,
       .bucket_bytes = static_cast<std::size_t>(place.config.bucket_mib * (1 << 20)),
       .gradient_type = place.config.gradient_type,
       .way = place.config.all_reduce});
}

}  // namespace

struct Trainer::Parts {
  Parts(const Workplace& workplace, Observer& observer_);

  StepTotals step(double learning_rate);
  record::EpochRecord train_epoch();
  void finish_step(double learning_rate, const StepTotals& totals);
  void evaluate(record::EpochRecord& epoch);
  RunSummary run();

  bool is_over() const { return progress.step >= total_steps; }
  bool evaluation_is_due() const;
  Wishes wishes() const { return {stop.requested(), checkpoints.is_due(progress.step + 1)}; }

  Workplace place;
  Observer& observer;
  const bool is_independent;  ///< nothing travels: the baseline without communication
  std::unique_ptr<Replica> replica;
  std::unique_ptr<comm::GradientReducer> reducer;
  const std::int64_t steps_per_epoch;
  const std::int64_t total_steps;
  optim::LearningRateSchedule schedule;
  optim::Sgd sgd;
  std::span<float> parameters, gradients, momentum;
  StepSums sums;
  StepLog log;
  Checkpoints checkpoints;
  Progress progress;
  Summariser summariser;
  StopSignal stop;
  Watchdog watchdog;
  StepClock clock;
  bool is_stopping = false;
  double checkpoint_pause = 0;  ///< seconds of this epoch spent on checkpoints
};

Trainer::Parts::Parts(const Workplace& workplace, Observer& observer_)
    : place(workplace),
      observer(observer_),
      is_independent(place.config.reducer == comm::ReducerKind::none),
      replica(make_replica(place)),
      reducer(make_reducer(place, replica->state.gradients.as<float>())),
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
      parameters(replica->state.parameters.as<float>()),
      gradients(replica->state.gradients.as<float>()),
      momentum(replica->state.momentum.as<float>()),
      sums(place.communicator, is_independent),
      log(static_cast<std::size_t>(steps_per_epoch), reducer->bucket_bytes().size()),
      checkpoints(place.config, place.graph, replica->state, place.communicator,
                  {steps_per_epoch, place.data.digest}),
      progress(checkpoints.restore()),
      summariser(place.communicator.size(), steps_per_epoch),
      watchdog(std::chrono::seconds(place.config.watchdog_seconds),
               fmt::format("rank {} on {}", place.communicator.rank(),
                           record::describe_process().hostname)),
      clock(watchdog) {}

/// One mini-batch through the rooms.
StepTotals Trainer::Parts::step(double learning_rate) {
  reducer->begin_step();
  clock.begin(progress.step + 1);
  const data::Batch batch = replica->loader.next();
  clock.end(Phase::data_wait);
  replica->plan->upload(batch.images, batch.labels);
  clock.end(Phase::upload);
  replica->plan->forward();
  sums.start(replica->plan->result(), wishes());
  clock.end(Phase::forward);
  replica->plan->backward(*reducer);
  clock.end(Phase::backward);
  const StepTotals totals = sums.finish(progress.step + 1);
  sgd.learning_rate = static_cast<float>(learning_rate);
  for (std::size_t updated = 0; updated < gradients.size();) {
    const std::size_t count = reducer->wait_beyond(updated) - updated;
    clock.end(Phase::exposed_communication);
    optim::update(sgd, parameters.subspan(updated, count), gradients.subspan(updated, count),
                  momentum.subspan(updated, count));
    clock.end(Phase::update);
    updated += count;
  }
  return totals;
}

record::EpochRecord Trainer::Parts::train_epoch() {
  const std::int64_t epoch = progress.step / steps_per_epoch;
  const std::int64_t end = std::min(total_steps, (epoch + 1) * steps_per_epoch);
  const auto begin = Clock::now();
  checkpoint_pause = 0;
  log.clear();
  replica->loader.start_epoch(epoch, static_cast<std::size_t>(progress.step % steps_per_epoch));
  while (progress.step < end && !is_stopping) {
    const double learning_rate = schedule.at(progress.step);
    finish_step(learning_rate, step(learning_rate));
  }
  const double seconds = seconds_since(begin) - checkpoint_pause;

  watchdog.progress(progress.step, "gathering the epoch's times");
  record::EpochRecord record = log.gather(place.communicator, is_independent);
  record.epoch = epoch + 1;
  record.seconds = seconds;
  if (is_independent) {
    std::array is_stopped{stop.requested() ? 1.0 : 0.0};
    place.communicator.sum(std::span<double>(is_stopped));
    is_stopping = is_stopped[0] > 0;
  } else {
    record.parameter_hash = require_equal_replicas(place.communicator, parameters, progress.step);
  }
  return record;
}

void Trainer::Parts::finish_step(double learning_rate, const StepTotals& totals) {
  ++progress.step;
  log.add(learning_rate, totals, clock.seconds(), reducer->bucket_times());
  is_stopping = totals.stop;
  if (place.communicator.rank() == 0) {
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
  if (totals.save && !is_stopping) {
    const auto begin = Clock::now();
    watchdog.progress(progress.step, "checkpoint");
    checkpoints.save(progress);
    checkpoint_pause += seconds_since(begin);
  }
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
std::vector<backend::OperationChoice> Trainer::kernels() const {
  return parts_->replica->plan->choices();
}
const backend::ModelState& Trainer::state() const { return parts_->replica->state; }

}  // namespace lockstep::train
