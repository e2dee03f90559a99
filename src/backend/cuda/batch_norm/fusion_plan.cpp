// SPDX-License-Identifier: BSD-3-Clause
#include "fusion_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "../dnn/convolution_graphs.hpp"
#include "../state.hpp"
#include "lockstep/graph/operations/batch_norm.hpp"
#include "lockstep/graph/operations/convolution.hpp"
#include "passes.hpp"
#include "trial.hpp"

namespace lockstep::backend::cuda {

namespace {

const Step& at(const std::vector<Step>& steps, int index) {
  return steps[static_cast<std::size_t>(index)];
}

const graph::Convolution* plain_convolution(const Step& step) {
  const auto* const operation = step.operation.get_if<graph::Convolution>();
  return operation != nullptr && !operation->has_bias ? operation : nullptr;
}

ConvolutionShape shape_of(const Context& context, const std::vector<Step>& steps,
                          const Step& convolution) {
  const Step& from = at(steps, convolution.inputs[0]);
  core::ImageShape input = from.output;
  if (from.operation.is<graph::Input>())
    input.channels = padded_image_channels(input.channels, context.element);
  return make_convolution_shape(*plain_convolution(convolution), context.options.batch, input,
                                convolution.output.channels);
}

std::string describe(const ConvolutionShape& shape) {
  return fmt::format("convolution n{} c{} h{} w{} k{} r{} stride{}", shape.images,
                     shape.in_channels, shape.in_height, shape.in_width, shape.out_channels,
                     shape.kernel, shape.stride);
}

BatchNormSetting setting_of(const Context& context, const std::vector<Step>& steps,
                            const Step& step, std::size_t readers) {
  const auto wants = [&](std::size_t input) {
    return input < step.inputs.size() &&
           !at(steps, step.inputs[input]).operation.is<graph::Input>();
  };
  BatchNormSetting setting =
      make_batch_norm_setting(*step.operation.get_if<graph::BatchNorm>(), context, step);
  // A boundary output has one gradient, but no reader.
  setting.output_gradients = std::clamp<std::size_t>(readers, 1, 2);
  setting.wants_input_gradient = wants(0);
  setting.wants_residual_gradient = wants(1);
  return setting;
}

/// Returns the execution time of two kernels in seconds; std::nullopt if one of them was not timed.
std::optional<double> total_of(double first, double second) {
  return first > 0 && second > 0 ? std::optional(first + second) : std::nullopt;
}

/// Returns whether the convolution with fused statistics and the remaining work of the batch norm
/// take less time than the separate convolution and batch norm, or whether the options force the
/// fusion.
bool sums_win(const Context& context, const ConvolutionShape& shape,
              const BatchNormSetting& setting, const DnnGraph& with_sums) {
  if (context.options.batch_norm_fusion != BatchNormFusion::automatic) return true;
  const auto seconds_from = [&](SumsFrom sums) {
    return fastest(setting, forward_candidates(setting, sums)).seconds;
  };
  const auto together = total_of(with_sums.seconds(), seconds_from(SumsFrom::convolution));
  const auto apart =
      total_of(convolution_forward(*context.planner, shape, context.options.precision)->seconds(),
               seconds_from(SumsFrom::batch_norm));
  const bool is_faster = together && apart && *together < *apart;
  const auto log = [&](const std::optional<double>& seconds, std::string_view name,
                       bool is_chosen) {
    context.planner->log().write({.graph = "batch norm behind " + describe(shape),
                                  .engine = std::string(name),
                                  .kind = "implementation",
                                  .seconds = seconds,
                                  .refusal = seconds ? "" : "a kernel of it was not timed",
                                  .is_chosen = is_chosen});
  };
  log(together, "fused statistics", is_faster);
  log(apart, "separate", !is_faster);
  return is_faster;
}

}  // namespace

BatchNormFusionPlan::BatchNormFusionPlan(const Context& context, const std::vector<Step>& steps) {
  const BatchNormFusion fusion = context.options.batch_norm_fusion;
  const bool can_be = context.is_training() && context.options.batch_norm_sum == nullptr;
  const bool can_choose =
      fusion != BatchNormFusion::automatic || context.planner->compares_alternatives();
  if (!can_be || !can_choose || fusion == BatchNormFusion::none) return;
  std::vector<std::size_t> readers(steps.size());  // steps that read the output of each step
  for (const Step& step : steps)
    for (const int input : step.inputs) ++readers[static_cast<std::size_t>(input)];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (!step.operation.is<graph::BatchNorm>()) continue;
    const int before = step.inputs[0];
    const Step& convolution = at(steps, before);
    if (plain_convolution(convolution) == nullptr) continue;
    if (readers[static_cast<std::size_t>(before)] != 1) continue;
    const ConvolutionShape shape = shape_of(context, steps, convolution);
    const PlannedGraph with_sums =
        convolution_with_sums(*context.planner, shape, context.options.precision);
    const BatchNormSetting setting = setting_of(context, steps, step, readers[i]);
    if (with_sums.graph == nullptr || !sums_win(context, shape, setting, *with_sums.graph))
      continue;
    entries_.push_back({.convolution = convolution.node,
                        .batch_norm = step.node,
                        .channels = step.output.channels});
  }
}

const FusedBatchNorm* BatchNormFusionPlan::find(graph::NodeId node) const {
  for (const FusedBatchNorm& fused : entries_)
    if (fused.convolution == node || fused.batch_norm == node) return &fused;
  return nullptr;
}

std::size_t FusedBatchNorm::vector_bytes() const {
  return aligned(static_cast<std::size_t>(channels) * sizeof(float));
}

std::size_t BatchNormFusionPlan::bytes() const {
  std::size_t bytes = 0;
  for (const FusedBatchNorm& fused : entries_) bytes += 2 * fused.vector_bytes();
  return bytes;
}

void BatchNormFusionPlan::place(std::byte* memory) {
  for (FusedBatchNorm& fused : entries_)
    for (float** const vector : {&fused.sums, &fused.squares})
      *vector = reinterpret_cast<float*>(std::exchange(memory, memory + fused.vector_bytes()));
}

}  // namespace lockstep::backend::cuda
