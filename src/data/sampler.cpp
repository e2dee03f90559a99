// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/sampler.hpp"

#include <array>
#include <numeric>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::data {

std::span<const core::NamedValue<LastBatch>> named_values(LastBatch) {
  static constexpr std::array<core::NamedValue<LastBatch>, 2> values{
      {{LastBatch::drop, "drop"}, {LastBatch::pad, "pad", "filled from the start of the epoch"}}};
  return values;
}

std::size_t steps_per_epoch(std::size_t samples, std::size_t global_batch, LastBatch last_batch) {
  const bool has_rest = samples % global_batch > 0;
  return samples / global_batch + (last_batch == LastBatch::pad && has_rest ? 1 : 0);
}

DistributedSampler::DistributedSampler(std::size_t samples, std::size_t global_batch, int ranks,
                                       std::uint64_t seed, LastBatch last_batch)
    : samples_(samples), global_batch_(global_batch), ranks_(ranks), seed_(seed) {
  core::check(ranks > 0 && global_batch > 0 && global_batch <= samples &&
                  global_batch % static_cast<std::size_t>(ranks) == 0,
              "the global batch can be divided among the ranks and is not larger than the dataset");
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

}  // namespace lockstep::data
