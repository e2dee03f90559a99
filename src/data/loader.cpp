// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/loader.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>
#include <utility>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::data {

namespace {

constexpr std::int64_t padding = 4;

void crop_flip(core::CropFlip crop, core::ImageShape shape, const std::uint8_t* from,
               std::uint8_t* to) {
  const std::int64_t height = shape.height;
  const std::int64_t width = shape.width;
  // Columns [begin, end) of the crop are inside the image; the others are padding.
  const std::int64_t begin = std::clamp<std::int64_t>(-crop.dx, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(width - crop.dx, begin, width);
  for (std::int64_t row = 0; row < shape.channels * height; ++row, to += width) {
    const std::int64_t y = row % height + crop.dy;
    if (y < 0 || y >= height) {
      std::fill_n(to, width, std::uint8_t{0});
      continue;
    }
    const std::uint8_t* source = from + (row / height * height + y) * width + crop.dx;
    if (crop.flip != 0) {
      std::fill(to, to + (width - end), std::uint8_t{0});
      std::reverse_copy(source + begin, source + end, to + (width - end));
      std::fill(to + (width - begin), to + width, std::uint8_t{0});
    } else {
      std::fill(to, to + begin, std::uint8_t{0});
      std::copy(source + begin, source + end, to + begin);
      std::fill(to + end, to + width, std::uint8_t{0});
    }
  }
}

struct Slot {
  core::Buffer images;
  std::vector<std::int32_t> labels;
  bool ready = false;
};

}  // namespace

std::span<const core::NamedValue<Augmentation>> named_values(Augmentation) {
  static constexpr std::array<core::NamedValue<Augmentation>, 2> values{
      {{Augmentation::crop_flip, "crop-flip", "pad by 4, random crop and flip"},
       {Augmentation::none, "none"}}};
  return values;
}

void augment(Augmentation augmentation, core::ImageShape shape, std::span<const std::uint8_t> from,
             std::span<std::uint8_t> to, std::uint64_t seed, std::int64_t epoch,
             std::uint32_t sample) {
  core::check(from.size() == to.size() && from.size() == static_cast<std::size_t>(shape.elements()),
              "images have the shape's size");
  if (augmentation == Augmentation::none) {
    std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  crop_flip(choose_crop(augmentation, seed, epoch, sample), shape, from.data(), to.data());
}

core::CropFlip choose_crop(Augmentation augmentation, std::uint64_t seed, std::int64_t epoch,
                           std::uint32_t sample) {
  if (augmentation == Augmentation::none) return {};
  core::Random random(seed, core::RandomStream::augmentation, static_cast<std::uint64_t>(epoch),
                      sample);
  const auto offset = [&] {
    return static_cast<std::int8_t>(std::int64_t{random.below(2 * padding + 1)} - padding);
  };
  const std::int8_t dy = offset();
  const std::int8_t dx = offset();
  return {.dy = dy, .dx = dx, .flip = static_cast<std::uint8_t>(random.bits() & 1u)};
}

std::span<const core::NamedValue<LastBatch>> named_values(LastBatch) {
  static constexpr std::array<core::NamedValue<LastBatch>, 2> values{
      {{LastBatch::drop, "drop"}, {LastBatch::pad, "pad", "filled from the start of the epoch"}}};
  return values;
}

std::size_t steps_per_epoch(std::size_t samples, std::size_t global_batch, LastBatch last_batch) {
  const bool has_rest = samples % global_batch > 0;
  return samples / global_batch + (last_batch == LastBatch::pad && has_rest ? 1 : 0);
}

std::int64_t batch_per_rank(std::int64_t global_batch, int ranks) {
  core::check(ranks > 0 && global_batch % ranks == 0,
              "the global batch can be divided among the ranks");
  return global_batch / ranks;
}

DistributedSampler::DistributedSampler(std::size_t samples, std::size_t global_batch, int ranks,
                                       std::uint64_t seed, LastBatch last_batch)
    : samples_(samples),
      global_batch_(global_batch),
      ranks_(ranks),
      batch_per_rank_(static_cast<std::size_t>(
          data::batch_per_rank(static_cast<std::int64_t>(global_batch), ranks))),
      seed_(seed) {
  core::check(global_batch > 0 && global_batch <= samples,
              "the global batch is not larger than the dataset");
  steps_ = data::steps_per_epoch(samples, global_batch, last_batch);
}

std::vector<std::uint32_t> DistributedSampler::epoch(std::int64_t epoch, int rank) const {
  core::check(epoch >= 0 && rank >= 0 && rank < ranks_, "epoch and rank are in range");
  // Every rank computes the whole permutation: this takes about a millisecond and avoids
  // communication.
  std::vector<std::uint32_t> order(samples_);
  std::iota(order.begin(), order.end(), 0u);
  core::Random random(seed_, core::RandomStream::permutation, static_cast<std::uint64_t>(epoch));
  for (std::uint32_t i = static_cast<std::uint32_t>(samples_) - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(i + 1)]);  // Fisher-Yates
  }

  const auto stride = static_cast<std::size_t>(ranks_);
  std::vector<std::uint32_t> mine;
  mine.reserve(steps_ * batch_per_rank());
  // The global batch is a multiple of the number of ranks, so the stride continues across batches.
  for (std::size_t position = static_cast<std::size_t>(rank); position < steps_ * global_batch_;
       position += stride) {
    mine.push_back(order[position < samples_ ? position : position - samples_]);
  }
  return mine;
}

// The batch of step s is prepared in slot s mod slots.size(). Workers take the steps in order. A
// worker waits if its slot still contains a batch that the trainer may be using. One mutex protects
// the bookkeeping; workers write images and labels without holding it.
struct DataLoader::State {
  State(const Dataset& dataset_, const DistributedSampler& sampler_, int rank_,
        const DataOptions& options_);

  void work(const std::stop_token& stop);
  void prepare(std::size_t step, Slot& slot) const;
  Slot& slot_of(std::size_t step) { return slots[step % slots.size()]; }
  bool has_work() const { return next_step < steps && next_step < oldest_step + slots.size(); }

  const Dataset& dataset;
  const DistributedSampler sampler;
  const std::size_t batch;  // images of this rank in a step
  const int rank;
  const DataOptions options;

  std::mutex mutex;
  std::condition_variable_any work_appeared;
  std::condition_variable_any slot_finished;
  std::vector<Slot> slots;
  std::int64_t epoch = 0;
  std::vector<std::uint32_t> order;  // samples of this rank in the epoch
  std::size_t steps = 0;             // steps of the epoch; 0 before the first epoch
  std::size_t next_step = 0;         // next step to prepare
  std::size_t oldest_step = 0;       // oldest step whose slot is in use (by the trainer)
  std::size_t delivered = 0;         // batches of steps before this one were returned by `next`
  int busy = 0;                      // number of workers that are writing a slot

  std::vector<std::jthread> threads;  // last member: joined before the members above are destroyed
};

DataLoader::State::State(const Dataset& dataset_, const DistributedSampler& sampler_, int rank_,
                         const DataOptions& options_)
    : dataset(dataset_),
      sampler(sampler_),
      batch(sampler.batch_per_rank()),
      rank(rank_),
      options(options_) {
  // One slot for the batch in use, one per worker, and one for a batch that is ready.
  const auto workers = static_cast<std::size_t>(options.loader_threads);
  slots.resize(workers == 0 ? 1 : workers + 2);
  for (Slot& slot : slots) {
    slot.images = core::Buffer(batch * dataset.image_bytes());
    slot.labels.resize(batch);
  }
  threads.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i) {
    threads.push_back(core::start_helper([this](const std::stop_token& stop) { work(stop); }));
  }
}

void DataLoader::State::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  while (work_appeared.wait(lock, stop, [this] { return has_work(); })) {
    const std::size_t step = next_step++;
    Slot& slot = slot_of(step);
    ++busy;
    lock.unlock();
    prepare(step, slot);
    lock.lock();
    --busy;
    slot.ready = true;
    slot_finished.notify_all();
  }
}

void DataLoader::State::prepare(std::size_t step, Slot& slot) const {
  const std::size_t image_bytes = dataset.image_bytes();
  const std::span<std::uint8_t> images = slot.images.as<std::uint8_t>();
  for (std::size_t i = 0; i < batch; ++i) {
    const std::uint32_t sample = order[step * batch + i];
    augment(options.augmentation, dataset.info().image, dataset.image(sample),
            images.subspan(i * image_bytes, image_bytes), options.seed, epoch, sample);
    slot.labels[i] = dataset.labels()[sample];
  }
}

DataLoader::DataLoader(const Dataset& dataset, const DistributedSampler& sampler, int rank,
                       const DataOptions& options)
    : state_(std::make_unique<State>(dataset, sampler, rank, options)) {}

DataLoader::~DataLoader() = default;

void DataLoader::start_epoch(std::int64_t epoch, std::size_t first_step) {
  State& state = *state_;
  core::check(first_step <= state.sampler.steps_per_epoch(), "the first step is in the epoch");
  std::vector<std::uint32_t> order = state.sampler.epoch(epoch, state.rank);
  std::unique_lock lock(state.mutex);
  state.steps = 0;  // no further work in the old epoch; wait for batches in preparation
  state.slot_finished.wait(lock, [&state] { return state.busy == 0; });
  for (Slot& slot : state.slots) slot.ready = false;
  state.epoch = epoch;
  state.order = std::move(order);
  state.steps = state.sampler.steps_per_epoch();
  state.next_step = state.oldest_step = state.delivered = first_step;
  state.work_appeared.notify_all();
}

Batch DataLoader::next() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  core::check(state.delivered < state.steps, "the epoch has a next batch");
  Slot& slot = state.slot_of(state.delivered);
  if (state.threads.empty()) {
    state.prepare(state.delivered, slot);
  } else {
    // The caller no longer uses the previous batch, so its slot is free again.
    if (state.oldest_step < state.delivered) {
      state.slot_of(state.oldest_step).ready = false;
      state.oldest_step = state.delivered;
      state.work_appeared.notify_one();
    }
    state.slot_finished.wait(lock, [&slot] { return slot.ready; });
  }
  ++state.delivered;
  return {.images = slot.images.as<const std::uint8_t>(), .labels = slot.labels};
}

}  // namespace lockstep::data
