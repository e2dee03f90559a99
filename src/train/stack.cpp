#include "lockstep/train/stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "deepest.hpp"
#include "layer_memory.hpp"
#include "lockstep/core/allocation_limit.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/layers.hpp"
#include "timed_plan.hpp"

namespace lockstep::train {

namespace {

/// Stacks of one layer on one device.
class Stacks {
 public:
  Stacks(const Config& config, const graph::Layer& layer, const backend::Backend& backend,
         std::uint64_t limit)
      : config_(layer_config(config, layer)),
        layer_(layer),
        backend_(backend),
        limit_(limit),
        base_(base_bytes(backend)),
        is_on_host_(!backend.device().available_memory()) {}

  /// Runs one layer, because threads and libraries allocate memory in the first step, which belongs
  /// to the base. Returns false if one layer does not fit.
  bool warm_up() {
    if (estimate(1) > limit_) return false;
    const auto failure = outcome_of([&] { run(1); });
    if (failure && failure->status() != core::ExitStatus::out_of_memory) throw *failure;
    if (failure) return false;
    base_ = base_bytes(backend_);
    return true;
  }

  /// Returns the estimated memory that is compared with the limit.
  std::uint64_t estimate(std::int64_t depth) {
    auto& bytes = estimates_[depth];
    if (bytes == 0) bytes = estimate_bytes(config_, graph::stack_layers(layer_, depth), backend_);
    return base_ + bytes;
  }

  /// Returns the deepest stack that fits by the estimate. Memory grows linearly with the depth from
  /// depth 2 on, so the search begins next to the result.
  std::int64_t estimate_deepest() {
    const auto two = static_cast<double>(estimate(2)), four = static_cast<double>(estimate(4));
    const double growth = std::max((four - two) / 2, 1.0);
    const double guess = 4 + (static_cast<double>(limit_) - four) / growth;
    const auto bounded = std::clamp(guess, 1.0, static_cast<double>(deepest_stack));
    const std::int64_t depth =
        find_deepest(static_cast<std::int64_t>(bounded), deepest_stack,
                     [&](std::int64_t layers) { return estimate(layers) <= limit_; });
    if (depth < deepest_stack) return depth;
    core::fail(
        core::ExitStatus::usage,
        fmt::format("more than {} of the layers '{}' fit in the memory; use a larger layer or "
                    "a smaller --memory-limit",
                    deepest_stack, layer_.text));
  }

  /// Runs a forward and a backward pass under the memory limit; returns whether the stack fits.
  bool fits(std::int64_t depth) {
    if (!is_on_host_ && config_.memory_limit > 0 && estimate(depth) > limit_) return false;
    std::optional<core::AllocationLimit> allocations;
    if (is_on_host_) {
      const std::uint64_t used = core::resident_memory().now;
      allocations.emplace(limit_ > used ? limit_ - used : 0);
    }
    std::uint64_t peak = 0;
    const auto failure = outcome_of([&] { peak = run(depth); });
    if (failure && failure->status() != core::ExitStatus::out_of_memory) throw *failure;
    if (!failure) peaks_[depth] = peak;
    return !failure;
  }

  std::uint64_t peak(std::int64_t depth) const { return peaks_.at(depth); }

  std::vector<double> time_forward(std::int64_t depth) const {
    TimedPlan timed(config_, graph::stack_layers(layer_, depth), backend_, StepPart::forward);
    for (int step = 0; step < layer_warm_up; ++step) timed.step();
    timed.forget();
    std::vector<double> seconds;
    for (int step = 0; step < layer_repeats; ++step) {
      const double all = timed.step();
      seconds.push_back(all - timed.seconds().at({no_node, upload_phase}).back());
    }
    return seconds;
  }

 private:
  /// Returns the peak of the memory that is compared with the limit.
  std::uint64_t run(std::int64_t depth) const {
    const std::uint64_t before = base_bytes(backend_);
    const MemoryIncrease increase(backend_);
    const graph::Graph graph = graph::stack_layers(layer_, depth);
    TimedPlan timed(config_, graph, backend_, StepPart::forward_backward);
    timed.step();
    return before + increase.bytes();
  }

  Config config_;
  graph::Layer layer_;
  const backend::Backend& backend_;
  std::uint64_t limit_ = 0, base_ = 0;  ///< bytes; `base_`: in use without a stack
  bool is_on_host_ = false;
  std::map<std::int64_t, std::uint64_t> estimates_, peaks_;  ///< by depth
};

}  // namespace

std::vector<record::StackRow> measure_stack(const Config& config, const graph::Layer& layer,
                                            const backend::Backend& backend,
                                            std::uint64_t limit_bytes,
                                            const std::function<void(std::int64_t)>& attempted) {
  Stacks stacks(config, layer, backend, limit_bytes);
  std::int64_t estimated = 0, deepest = 0;
  if (stacks.warm_up()) {
    estimated = stacks.estimate_deepest();
    deepest = find_deepest(estimated, deepest_stack, [&](std::int64_t depth) {
      attempted(depth);
      return stacks.fits(depth);
    });
  }
  const auto row = [&](const char* status, std::int64_t stages, std::int64_t depth) {
    return record::StackRow{.layer = layer.text,
                            .status = status,
                            .stages = stages,
                            .depth = depth,
                            .estimated_depth = stages * estimated,
                            .limit_bytes = limit_bytes,
                            .estimated_bytes = stacks.estimate(depth / stages),
                            .forward_seconds = {}};
  };
  std::vector<record::StackRow> rows;
  if (deepest > 0) {
    rows.push_back(row("complete", 1, deepest));
    rows.back().peak_bytes = stacks.peak(deepest);
    rows.back().forward_seconds = stacks.time_forward(deepest);
  }
  rows.push_back(row("out_of_memory", 1, deepest + 1));
  if (config.stages > 1 && estimated > 0)
    rows.push_back(row("estimated", config.stages, config.stages * estimated));
  return rows;
}

}  // namespace lockstep::train
