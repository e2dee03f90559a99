// SPDX-License-Identifier: BSD-3-Clause
#include "trial.hpp"

// Times the implementation candidates for the passes of batch norm.

#include <fmt/format.h>

#include <utility>

#include "../device/kernel_stopwatch.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

namespace {

std::size_t map_bytes(const BatchNormSetting& setting) {
  return static_cast<std::size_t>(setting.rows() * setting.channels()) *
         core::size_of(setting.context->element);
}

/// Returns the device memory that the feature maps and the workspace of a trial need; the vectors
/// are negligible.
std::size_t trial_bytes(const BatchNormSetting& setting, std::size_t workspace_bytes) {
  const std::size_t maps = 4 + (setting.has_residual ? 1u : 0u) +
                           (setting.output_gradients > 1 ? 1u : 0u) +
                           (setting.wants_residual_gradient ? 1u : 0u);
  return maps * map_bytes(setting) + workspace_bytes;
}

/// Device memory for one pass, laid out as in a plan.
class TrialMemory {
 public:
  TrialMemory(const BatchNormSetting& setting, std::size_t workspace_bytes) : setting_(setting) {
    memory_.x = map();
    if (setting.has_residual) memory_.residual = map();
    memory_.y = map();
    memory_.dy = map();
    if (setting.output_gradients > 1) memory_.dy_more = map();
    memory_.dx = map();
    if (setting.wants_residual_gradient) memory_.masked = map();
    for (float** vector :
         {&memory_.gamma, &memory_.beta, &memory_.gamma_gradient, &memory_.beta_gradient,
          &memory_.running_mean, &memory_.running_variance})
      *vector = floats(setting.channels());
    memory_.saved = floats(batch_norm_saved_floats(setting.channels()));
    memory_.sums = floats(setting.channels());
    memory_.squares = floats(setting.channels());
    buffers_.push_back(core::device_buffer(workspace_bytes, "timing kernels"));
    memory_.workspace = buffers_.back().data();
  }

  const BatchNormMemory& get() const { return memory_; }

 private:
  std::byte* map() {
    buffers_.push_back(random_buffer(map_bytes(setting_), setting_.context->element));
    return buffers_.back().data();
  }
  float* floats(std::int64_t count) {
    buffers_.push_back(
        random_buffer(static_cast<std::size_t>(count) * sizeof(float), core::DataType::float32));
    return reinterpret_cast<float*>(buffers_.back().data());
  }

  const BatchNormSetting& setting_;
  std::vector<core::Buffer> buffers_;
  BatchNormMemory memory_;
};

std::string describe(const BatchNormSetting& setting) {
  const BatchNormShape& shape = setting.shape;
  return fmt::format("pass{}{}{}{} n{} c{} h{} w{} {}", setting.has_residual ? " residual" : "",
                     setting.has_relu ? " relu" : "", setting.output_gradients > 1 ? " add" : "",
                     setting.wants_residual_gradient ? " fork" : "", shape.images, shape.channels,
                     shape.height, shape.width, core::name(setting.context->options.precision));
}

/// Returns the execution time of a pass on the GPU, in seconds; 0 if nothing is selected by timing,
/// if the memory does not suffice, or if the statistics are summed over replicas: the pass is then
/// collective, but the ranks need not time the same passes.
double seconds_of(const BatchNormSetting& setting, BatchNormPass& pass) {
  const Context& context = *setting.context;
  if (!context.planner->is_timing() || context.options.batch_norm_sum != nullptr) return 0;
  return context.planner->remembered_seconds(
      fmt::format("batch norm's {} {}", pass.name(), describe(setting)), context.options.precision,
      [&]() -> double {
        const std::size_t bytes = trial_bytes(setting, pass.workspace_bytes());
        if (!KernelStopwatch::fits(*context.target, bytes)) return 0;
        try {
          const TrialMemory memory(setting, pass.workspace_bytes());
          pass.bind(memory.get());
          return KernelStopwatch(*context.target).seconds(bytes, [&] {
            pass.run();
            return true;
          });
        } catch (const core::Error& error) {
          if (error.status() != core::ExitStatus::out_of_memory) throw;
          return 0;
        }
      });
}

}  // namespace

TimedPass fastest(const BatchNormSetting& setting, BatchNormCandidates candidates) {
  std::vector<double> seconds;
  for (const auto& candidate : candidates) seconds.push_back(seconds_of(setting, *candidate));
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (seconds[i] > 0 && (seconds[chosen] == 0 || seconds[i] < seconds[chosen])) chosen = i;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    CandidateRecord record{.graph = "batch norm's " + describe(setting),
                           .engine = candidates[i]->name(),
                           .kind = "implementation",
                           .workspace_bytes = candidates[i]->workspace_bytes(),
                           .is_chosen = i == chosen};
    if (seconds[i] > 0)
      record.seconds = seconds[i];
    else
      record.refusal = "not timed";
    setting.context->planner->log().write(record);
  }
  return {std::move(candidates[chosen]), seconds[chosen]};
}

}  // namespace lockstep::backend::cuda
