// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint_tensors.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/thread.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

namespace {

/// Returns memory for the tensors, and makes them views of it.
core::Buffer allocate(std::vector<record::Tensor>& tensors) {
  std::vector<std::size_t> counts;
  for (const record::Tensor& tensor : tensors) {
    counts.push_back(static_cast<std::size_t>(
        std::reduce(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies())));
  }
  core::Buffer memory(std::reduce(counts.begin(), counts.end()) * sizeof(float));
  std::span<float> rest = memory.as<float>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].values = rest.first(counts[i]);
    rest = rest.subspan(counts[i]);
  }
  return memory;
}

}  // namespace

RankTensors::RankTensors(std::vector<record::Tensor> own, comm::Communicator& communicator)
    : own_(std::move(own)), communicator_(communicator) {
  using Description = std::tuple<std::string, std::string, std::vector<std::int64_t>>;
  std::vector<Description> mine;
  for (const record::Tensor& tensor : own_)
    mine.emplace_back(tensor.group, tensor.name, tensor.shape);
  const auto all = comm::gather(communicator, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (const auto& [group, name, shape] : all[rank]) {
      copies_.push_back({group, name, shape, {}});
      ranks_.push_back(static_cast<int>(rank));
    }
  }
}

const std::vector<record::Tensor>& RankTensors::copies() {
  if (memory_.bytes() == 0) memory_ = allocate(copies_);
  return copies_;
}

void RankTensors::gather() {
  copies();
  for (std::size_t i = 0; i < copies_.size(); ++i)
    communicator_.receive(std::as_writable_bytes(copies_[i].values), ranks_[i]);
  if (communicator_.rank() == 0) return;
  for (const record::Tensor& tensor : own_) communicator_.send(std::as_bytes(tensor.values), 0);
}

void RankTensors::distribute() {
  copies();
  for (std::size_t i = 0; i < copies_.size(); ++i)
    communicator_.send(std::as_bytes(copies_[i].values), ranks_[i]);
  memory_ = {};
  if (communicator_.rank() == 0) return;
  for (const record::Tensor& tensor : own_)
    communicator_.receive(std::as_writable_bytes(tensor.values), 0);
}

CheckpointWriter::CheckpointWriter(record::CheckpointStore store, std::vector<record::Tensor> live)
    : store_(std::move(store)),
      live_(std::move(live)),
      copies_(live_),
      memory_(allocate(copies_)) {}

void CheckpointWriter::start(std::int64_t step, const std::vector<record::Tensor>& others,
                             record::Counters counters) {
  core::check(!thread_.joinable(), "a checkpoint is saved before the previous one is complete");
  for (std::size_t i = 0; i < live_.size(); ++i) {
    std::ranges::copy(live_[i].values, copies_[i].values.begin());
  }
  std::vector<record::Tensor> tensors = copies_;
  tensors.insert(tensors.end(), others.begin(), others.end());
  is_saving_.store(true, std::memory_order_relaxed);
  thread_ = core::start_helper([this, step, tensors = std::move(tensors),
                                counters = std::move(counters)](const std::stop_token&) {
    const double begin = core::host_seconds();
    failure_ = outcome_of([&] {
      store_.write(step, tensors, counters);
      last_seconds_.store(core::host_seconds() - begin, std::memory_order_relaxed);
      store_.prune();
    });
    if (failure_) has_failed_.store(true, std::memory_order_release);
    is_saving_.store(false, std::memory_order_release);
  });
}

void CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  has_failed_.store(false, std::memory_order_relaxed);
  if (auto failure = std::exchange(failure_, std::nullopt)) throw *std::move(failure);
}

}  // namespace lockstep::train
