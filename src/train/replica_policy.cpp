// SPDX-License-Identifier: BSD-3-Clause
#include "replica_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/train/agreement.hpp"
#include "replica_hash.hpp"

namespace lockstep::train {

namespace {

std::string not_finite(std::int64_t step, int rank) {
  return fmt::format(
      "the loss is not finite in step {} on rank {}; lower --lr, add --warmup-epochs, or start "
      "from the last checkpoint with a lower rate",
      step, rank);
}

/// One all-reduce of a few values in every step: the results of the batch, the requests of the
/// ranks, and one flag per rank for a loss that is not finite, so that all ranks make the same
/// decisions.
class SynchronousReplicas final : public ReplicaPolicy {
 public:
  SynchronousReplicas(comm::Communicator& data_parallel, comm::Communicator& world)
      : data_parallel_(data_parallel),
        world_(world),
        values_(first_rank + static_cast<std::size_t>(world.size())) {}

  float gradient_scale() const override { return 1 / static_cast<float>(data_parallel_.size()); }

  StepTotals finish_step(const backend::BatchResult& result, StepRequests requests,
                         std::int64_t step) override {
    std::ranges::fill(values_, 0.0);
    values_[loss] = result.loss_sum;
    values_[correct] = static_cast<double>(result.correct);
    values_[images] = static_cast<double>(result.images);
    values_[stop] = requests.stop ? 1 : 0;
    values_[save] = requests.save ? 1 : 0;
    values_[first_rank + static_cast<std::size_t>(world_.rank())] =
        std::isfinite(result.loss_sum) ? 0 : 1;
    world_.sum(std::span<double>(values_));
    require_finite(step);
    return {.loss_sum = values_[loss],
            .correct = static_cast<std::int64_t>(values_[correct]),
            .images = static_cast<std::int64_t>(values_[images]),
            .requests = {.stop = values_[stop] > 0, .save = values_[save] > 0}};
  }

  void finish_steps(std::span<double>) override {}

  EpochEnd finish_epoch(std::uint64_t parameter_hash, StepRequests, std::int64_t step) override {
    return {.parameter_hash = combined_hash(parameter_hash, step), .requests = {}};
  }

  void require_equal(std::uint64_t parameter_hash, std::int64_t step) override {
    combined_hash(parameter_hash, step);
  }

 private:
  enum Value : std::size_t { loss, correct, images, stop, save, first_rank };

  std::string combined_hash(std::uint64_t parameter_hash, std::int64_t step) {
    const int stages = world_.size() / data_parallel_.size();
    return require_equal_replicas(world_, stages, parameter_hash, step);
  }

  void require_finite(std::int64_t step) const {
    const auto flags = std::span(values_).subspan(first_rank);
    const auto found = std::ranges::find_if(flags, [](double flag) { return flag != 0; });
    if (found == flags.end()) return;
    const int rank = static_cast<int>(found - flags.begin());
    throw AgreedError(core::ExitStatus::diverged, not_finite(step, rank), rank, world_.rank());
  }

  comm::Communicator& data_parallel_;
  comm::Communicator& world_;
  std::vector<double> values_;
};

class IndependentReplicas final : public ReplicaPolicy {
 public:
  explicit IndependentReplicas(comm::Communicator& data_parallel) : data_parallel_(data_parallel) {}

  float gradient_scale() const override { return 1; }

  StepTotals finish_step(const backend::BatchResult& result, StepRequests,
                         std::int64_t step) override {
    if (!std::isfinite(result.loss_sum))
      core::fail(core::ExitStatus::diverged, not_finite(step, data_parallel_.rank()));
    return {.loss_sum = result.loss_sum,
            .correct = result.correct,
            .images = result.images,
            .requests = {}};
  }

  void finish_steps(std::span<double> values) override { data_parallel_.sum(values); }

  void require_equal(std::uint64_t, std::int64_t) override {}

  EpochEnd finish_epoch(std::uint64_t, StepRequests requests, std::int64_t) override {
    std::array counts{requests.stop ? 1.0 : 0.0, requests.save ? 1.0 : 0.0};
    data_parallel_.sum(std::span<double>(counts));
    return {.parameter_hash = {}, .requests = {.stop = counts[0] > 0, .save = counts[1] > 0}};
  }

 private:
  comm::Communicator& data_parallel_;
};

}  // namespace

std::unique_ptr<ReplicaPolicy> make_replica_policy(comm::ReducerKind reducer,
                                                   comm::Communicator& data_parallel,
                                                   comm::Communicator& world) {
  if (reducer == comm::ReducerKind::none)
    return std::make_unique<IndependentReplicas>(data_parallel);
  return std::make_unique<SynchronousReplicas>(data_parallel, world);
}

}  // namespace lockstep::train
