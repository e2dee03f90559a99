// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint_writer.hpp"

#include <algorithm>
#include <utility>

#include "lockstep/core/process/thread.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

namespace {

std::size_t count_elements(const std::vector<record::Tensor>& tensors) {
  std::size_t elements = 0;
  for (const record::Tensor& tensor : tensors) elements += tensor.values.size();
  return elements;
}

}  // namespace

CheckpointWriter::CheckpointWriter(record::CheckpointStore store, std::vector<record::Tensor> live)
    : store_(std::move(store)),
      live_(std::move(live)),
      memory_(count_elements(live_) * sizeof(float)) {
  std::size_t offset = 0;
  for (const record::Tensor& tensor : live_) {
    const std::size_t count = tensor.values.size();
    copies_.push_back(
        {tensor.group, tensor.name, tensor.shape, memory_.as<float>().subspan(offset, count)});
    offset += count;
  }
}

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
