// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "layer_memory.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/limits.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/study/layers.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"
#include "lockstep/train/weights.hpp"

namespace lockstep::study {

namespace {

std::vector<graph::Graph> divide(const graph::Graph& stack, std::int64_t depth, int stages) {
  std::vector<std::string> firsts;
  for (int stage = 1; stage < stages; ++stage)
    firsts.push_back(fmt::format("layer.{}", (stage * depth + stages - 1) / stages));
  return stack.cut_before(firsts);
}

/// A stack of equal layers that is divided over the ranks of a communicator, one stage of a
/// pipeline each, and the training plan of this rank.
class DividedStack {
 public:
  /// `depth`: number of layers, at least one per rank; their numbers per rank differ by at most 1.
  DividedStack(const backend::PlanOptions& options, const graph::Layer& layer, std::int64_t depth,
               const backend::Backend& backend, comm::Communicator& world)
      : backend_(backend),
        world_(world),
        options_(options),
        stack_(graph::stack_layers(layer, depth)),
        pipeline_{.stage = world.rank(),
                  .network = stack_,
                  .graphs = divide(stack_, depth, world.size()),
                  .stages = nullptr,
                  .replicas = nullptr} {}
  DividedStack(const DividedStack&) = delete;
  DividedStack& operator=(const DividedStack&) = delete;

  /// Returns the memory of the plan in bytes, from shapes.
  std::uint64_t estimate() const {
    const backend::MemoryUse part = backend_.least_memory(pipeline_.graph(), options_);
    return train::pipeline_memory(pipeline_, part, options_, backend_.device()).total();
  }

  /// Allocates the plan and executes its passes once without communication. If `limit` is given,
  /// this process can allocate only that many further bytes in the meantime. Throws `AgreedError`
  /// if a rank fails.
  void prepare(std::optional<std::uint64_t> limit) {
    pipeline_.stages = world_.split(0, world_.rank());
    train::together(world_, [&] {
      std::optional<core::AllocationLimit> allocations;
      if (limit) allocations.emplace(*limit);
      const graph::Graph& part = pipeline_.graph();
      state_.emplace(backend_.make_state(part));
      train::initialise(part, options_.seed, *state_);
      backend_.store(*state_);
      plan_ =
          train::make_plan(&pipeline_, part, backend_, *state_, options_, train::WarmUp::always);
      const std::int64_t image = pipeline_.is_first() ? part.image().elements() : 0;
      images_.resize(static_cast<std::size_t>(options_.batch * image));
      labels_.resize(static_cast<std::size_t>(options_.batch));
      core::Random random(options_.seed, core::RandomStream::test);
      for (auto& byte : images_) byte = static_cast<std::uint8_t>(random.below(256));
    });
  }

  /// Executes a forward pass through all stages after `prepare` and returns its seconds on the
  /// slowest rank, including the copy of the random images.
  double forward() {
    world_.barrier();
    const double begin = core::host_seconds();
    plan_->upload(images_, labels_);
    plan_->forward();
    return comm::maximum(world_, core::host_seconds() - begin);
  }

  /// Executes the backward pass that belongs to the last forward pass. Must follow the last
  /// `forward`, because it also completes the messages.
  void backward() {
    core::NoGradientListener no_listener;
    plan_->backward(no_listener);
  }

 private:
  const backend::Backend& backend_;
  comm::Communicator& world_;
  backend::PlanOptions options_;
  graph::Graph stack_;
  train::Pipeline pipeline_;
  std::optional<backend::ModelState> state_;
  std::unique_ptr<backend::Plan> plan_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

/// Stacks of one layer, each divided over the devices of all ranks, which agree on every result.
class Stacks {
 public:
  Stacks(const backend::PlanOptions& options, const graph::Layer& layer,
         const backend::Backend& backend, comm::Communicator& world, const MemoryLimit& limit)
      : options_(without_reduction(options)),
        layer_(layer),
        backend_(backend),
        world_(world),
        limit_(limit.bytes),
        has_given_limit_(limit.is_given),
        base_(base_bytes(backend)),
        is_on_host_(!backend.device().available_memory()) {}

  /// Returns the depth of the smallest stack, which has one layer per device.
  std::int64_t smallest() const { return world_.size(); }

  /// Runs the smallest stack, because threads and libraries allocate memory in the first step,
  /// which belongs to the base. Returns false if it does not fit.
  bool warm_up() {
    if (estimate(smallest()) > limit_) return false;
    if (!run(smallest(), std::nullopt)) return false;
    base_ = base_bytes(backend_);
    estimates_.clear();
    return true;
  }

  /// Returns the estimated memory that is compared with the limit: that of the rank that needs
  /// most.
  std::uint64_t estimate(std::int64_t depth) {
    auto& bytes = estimates_[depth];
    if (bytes == 0) {
      train::together(world_, [&] { bytes = base_ + stack(depth).estimate(); });
      bytes = comm::maximum(world_, bytes);
    }
    return bytes;
  }

  /// Returns the deepest stack for which `fits(depth)` is true, found from `guess` on; one less
  /// than `smallest()` if there is none.
  std::int64_t find(std::int64_t guess, const std::function<bool(std::int64_t)>& fits) const {
    const std::int64_t offset = smallest() - 1;
    return offset + find_deepest(guess - offset, deepest() - offset,
                                 [&](std::int64_t depth) { return fits(depth + offset); });
  }

  /// Returns the deepest stack that fits by the estimate. Memory grows linearly with the layers of
  /// a device from 2 on, so the search begins next to the result.
  std::int64_t find_estimated() {
    const auto two = static_cast<double>(estimate(2 * smallest()));
    const auto four = static_cast<double>(estimate(4 * smallest()));
    const double growth = std::max((four - two) / 2, 1.0);
    const double guess = 4 + (static_cast<double>(limit_) - four) / growth;
    const auto per_device =
        static_cast<std::int64_t>(std::clamp(guess, 1.0, static_cast<double>(deepest_stack)));
    const std::int64_t depth = find(
        per_device * smallest(), [&](std::int64_t layers) { return estimate(layers) <= limit_; });
    if (depth < deepest()) return depth;
    comm::fail_together(
        world_, core::ExitStatus::usage,
        fmt::format("more than {} of the layers '{}' fit in the memory; use a larger layer or "
                    "a smaller --memory-limit",
                    deepest(), layer_.text));
  }

  /// Runs a forward and a backward pass under the memory limit; returns whether the stack fits.
  bool fits(std::int64_t depth) {
    if (!is_on_host_) {
      return (!has_given_limit_ || estimate(depth) <= limit_) && run(depth, std::nullopt);
    }
    const std::uint64_t used = core::resident_memory().now;
    return run(depth, limit_ > used ? limit_ - used : 0);
  }

  /// Returns the peak of the memory that is compared with the limit, of a stack that has been run.
  std::uint64_t peak(std::int64_t depth) const { return peaks_.at(depth); }

  std::vector<double> time_forward(std::int64_t depth) {
    DividedStack timed = stack(depth);
    timed.prepare(std::nullopt);
    for (int step = 0; step < layer_warm_up; ++step) timed.forward();
    std::vector<double> seconds;
    for (int step = 0; step < layer_repeats; ++step) seconds.push_back(timed.forward());
    timed.backward();  // completes the messages of the last forward pass
    return seconds;
  }

 private:
  std::int64_t deepest() const { return deepest_stack * smallest(); }

  DividedStack stack(std::int64_t depth) const {
    return {options_, layer_, depth, backend_, world_};
  }

  /// Runs a forward and a backward pass and stores the peak; returns false if memory is exhausted.
  bool run(std::int64_t depth, std::optional<std::uint64_t> allocation_limit) {
    const std::uint64_t before = base_bytes(backend_);
    const MemoryIncrease increase(backend_);
    try {
      DividedStack attempt = stack(depth);
      attempt.prepare(allocation_limit);
      attempt.forward();
      attempt.backward();
      peaks_[depth] = comm::maximum(world_, before + increase.bytes());
      return true;
    } catch (const train::AgreedError& error) {
      if (error.status() == core::ExitStatus::out_of_memory) return false;
      throw;
    }
  }

  backend::PlanOptions options_;
  graph::Layer layer_;
  const backend::Backend& backend_;
  comm::Communicator& world_;
  std::uint64_t limit_ = 0;  ///< bytes
  bool has_given_limit_ = false;
  std::uint64_t base_ = 0;  ///< bytes in use without a stack
  bool is_on_host_ = false;
  std::map<std::int64_t, std::uint64_t> estimates_, peaks_;  ///< by depth
};

}  // namespace

std::vector<record::StackRow> measure_stack(const backend::PlanOptions& options,
                                            const graph::Layer& layer,
                                            const backend::Backend& backend,
                                            comm::Communicator& world, const MemoryLimit& limit,
                                            const std::function<void(std::int64_t)>& attempted) {
  Stacks stacks(options, layer, backend, world, limit);
  std::int64_t estimated = stacks.smallest() - 1, deepest = estimated;
  if (stacks.warm_up()) {
    estimated = stacks.find_estimated();
    deepest = stacks.find(estimated, [&](std::int64_t depth) {
      attempted(depth);
      return stacks.fits(depth);
    });
  }
  const auto row = [&](const char* status, std::int64_t depth) {
    return record::StackRow{.layer = layer.text,
                            .status = status,
                            .stages = world.size(),
                            .depth = depth,
                            .estimated_depth = estimated,
                            .limit_bytes = limit.bytes,
                            .estimated_bytes = stacks.estimate(depth),
                            .forward_seconds = {}};
  };
  std::vector<record::StackRow> rows;
  if (deepest >= stacks.smallest()) {
    rows.push_back(row("complete", deepest));
    rows.back().peak_bytes = stacks.peak(deepest);
    rows.back().forward_seconds = stacks.time_forward(deepest);
  }
  rows.push_back(row("out_of_memory", deepest + 1));
  return rows;
}

}  // namespace lockstep::study
