#include "fusion_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "../device/alignment.hpp"
#include "../dnn/convolution_graphs.hpp"
#include "../state.hpp"
#include "passes.hpp"

namespace lockstep::backend::cuda {

namespace {

std::vector<std::vector<int>> readers_of(const std::vector<Step>& steps) {
  std::vector<std::vector<int>> readers(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const int input : steps[i].inputs)
      readers[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
  return readers;
}

const Step& at(const std::vector<Step>& steps, int index) {
  return steps[static_cast<std::size_t>(index)];
}

const graph::Convolution* plain_convolution(const Step& step) {
  const auto* const operation = std::get_if<graph::Convolution>(&step.operation);
  return operation != nullptr && !operation->has_bias ? operation : nullptr;
}

ConvolutionShape shape_of(const Context& context, const std::vector<Step>& steps,
                          const Step& convolution) {
  const Step& from = at(steps, convolution.inputs[0]);
  core::ImageShape input = from.output;
  if (graph::is_input(from.operation))
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
                            const Step& step, std::size_t readers, bool output_is_written) {
  const auto wants = [&](std::size_t input) {
    return input < step.inputs.size() && !graph::is_input(at(steps, step.inputs[input]).operation);
  };
  return make_batch_norm_setting(std::get<graph::BatchNorm>(step.operation), context, step,
                                 {.output_gradients = std::min<std::size_t>(readers, 2),
                                  .input = wants(0),
                                  .residual = wants(1),
                                  .output_is_written = output_is_written});
}

/// Sum of the execution times of several kernels; unknown if one of them was not timed.
class TotalSeconds {
 public:
  void add(double seconds) {
    if (seconds > 0)
      total_ += seconds;
    else
      is_known_ = false;
  }
  std::optional<double> seconds() const { return is_known_ ? std::optional(total_) : std::nullopt; }
  bool is_less_than(const TotalSeconds& other) const {
    return is_known_ && other.is_known_ && total_ < other.total_;
  }

 private:
  double total_ = 0;
  bool is_known_ = true;
};

struct Variant {
  std::string_view name;
  TotalSeconds seconds;
};

/// Writes the variants of a fusion to the engine log.
void log_variants(const Context& context, const std::string& what,
                  std::initializer_list<Variant> variants, int chosen) {
  int index = 0;
  for (const Variant& variant : variants)
    context.planner->log().write(
        {.graph = what,
         .engine = std::string(variant.name),
         .kind = CandidateKind::implementation,
         .seconds = variant.seconds.seconds(),
         .refusal = variant.seconds.seconds() ? "" : "a kernel of it was not timed",
         .is_chosen = index++ == chosen});
}

bool is_forced(const Context& context) {
  return context.options.batch_norm_fusion != BatchNormFusion::automatic;
}

/// Returns whether the convolution with fused statistics and the remaining work of the batch norm
/// take less time than the separate convolution and batch norm, or whether the options force the
/// fusion.
bool sums_win(const Context& context, const ConvolutionShape& shape,
              const BatchNormSetting& setting, const DnnGraph& with_sums) {
  if (is_forced(context)) return true;
  TotalSeconds together, apart;
  together.add(with_sums.seconds());
  together.add(fastest_forward(setting, SumsFrom::convolution, SingleCandidate::timed).seconds);
  apart.add(convolution_forward(*context.planner, shape, context.options.precision)->seconds());
  apart.add(fastest_forward(setting, SumsFrom::batch_norm, SingleCandidate::timed).seconds);
  log_variants(context, "batch norm behind " + describe(shape),
               {{"fused statistics", together}, {"separate", apart}},
               together.is_less_than(apart) ? 0 : 1);
  return together.is_less_than(apart);
}

/// Returns the time per training step of a batch norm and of the convolution `reader` that follows
/// it: the convolution's forward pass and weight gradient, and both passes of the batch norm.
/// `setting.output_is_written` selects whether the batch norm stores its output or `reader`
/// recomputes it. Returns std::nullopt if cuDNN has no engine for one of the graphs.
std::optional<TotalSeconds> seconds_with_reader(const Context& context,
                                                const ConvolutionShape& reader,
                                                const BatchNormSetting& setting) {
  DnnPlanner& planner = *context.planner;
  const core::Precision precision = context.options.precision;
  const bool is_written = setting.output_is_written;
  const PlannedGraph forward =
      convolution_with_sums(planner, reader, precision,
                            is_written ? ConvolutionInput::plain : ConvolutionInput::normalised);
  const PlannedGraph weights =
      is_written ? PlannedGraph{convolution_backward_weights(planner, reader, precision), {}}
                 : convolution_backward_weights_of_normalised(planner, reader, precision);
  if (forward.graph == nullptr || weights.graph == nullptr) return std::nullopt;
  TotalSeconds total;
  total.add(forward.graph->seconds());
  total.add(weights.graph->seconds());
  const auto best = fastest_forward(setting, SumsFrom::convolution, SingleCandidate::timed);
  total.add(best.seconds);
  total.add(fastest_backward(setting, *best.candidate, SingleCandidate::timed).seconds);
  return total;
}

}  // namespace

BatchNormFusionPlan::BatchNormFusionPlan(const Context& context, const std::vector<Step>& steps) {
  const BatchNormFusion fusion = context.options.batch_norm_fusion;
  const bool can_be = context.is_training() && context.options.batch_norm_sum == nullptr;
  const bool can_choose = fusion != BatchNormFusion::automatic || context.planner->is_timing();
  if (!can_be || !can_choose || fusion == BatchNormFusion::none) return;
  const Readers readers = readers_of(steps);
  find_sums(context, steps, readers);
  if (fusion != BatchNormFusion::sums) find_readers(context, steps, readers);
}

void BatchNormFusionPlan::find_sums(const Context& context, const std::vector<Step>& steps,
                                    const Readers& readers) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (!std::holds_alternative<graph::BatchNorm>(step.operation)) continue;
    const int before = step.inputs[0];
    const Step& convolution = at(steps, before);
    if (plain_convolution(convolution) == nullptr) continue;
    if (readers[static_cast<std::size_t>(before)].size() != 1) continue;
    const ConvolutionShape shape = shape_of(context, steps, convolution);
    const PlannedGraph with_sums = convolution_with_sums(
        *context.planner, shape, context.options.precision, ConvolutionInput::plain);
    // A boundary output has one gradient, but no reader.
    const std::size_t gradients = std::max<std::size_t>(readers[i].size(), 1);
    const BatchNormSetting setting = setting_of(context, steps, step, gradients, true);
    if (with_sums.graph == nullptr || !sums_win(context, shape, setting, *with_sums.graph))
      continue;
    entries_.push_back({.convolution = convolution.node,
                        .batch_norm = step.node,
                        .channels = step.output.channels});
  }
}

void BatchNormFusionPlan::find_readers(const Context& context, const std::vector<Step>& steps,
                                       const Readers& readers) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const auto fused = std::ranges::find(entries_, step.node, &FusedBatchNorm::batch_norm);
    if (fused == entries_.end()) continue;
    const auto& reading = readers[i];
    if (!step.with_relu || step.inputs.size() > 1 || reading.size() != 1) continue;
    const Step& reader = at(steps, reading[0]);
    // cuDNN's kernels that normalise their input also compute the sums of their output.
    if (plain_convolution(reader) == nullptr || behind(reader.node) == nullptr) continue;
    const ConvolutionShape shape = shape_of(context, steps, reader);
    const auto seconds = [&](bool output_is_written) {
      return seconds_with_reader(context, shape,
                                 setting_of(context, steps, step, 1, output_is_written));
    };
    const auto unwritten = seconds(false);
    if (!unwritten) continue;
    if (!is_forced(context)) {
      const TotalSeconds written = *seconds(true);
      const bool is_faster = unwritten->is_less_than(written);
      log_variants(context, "batch norm before " + describe(shape),
                   {{"fused normalisation", *unwritten}, {"stored output", written}},
                   is_faster ? 0 : 1);
      if (!is_faster) continue;
    }
    fused->reader = reader.node;
  }
}

const FusedBatchNorm* BatchNormFusionPlan::find(graph::NodeId FusedBatchNorm::*end,
                                                graph::NodeId node) const {
  for (const FusedBatchNorm& fused : entries_)
    if (fused.*end == node) return &fused;
  return nullptr;
}

const FusedBatchNorm* BatchNormFusionPlan::behind(graph::NodeId convolution) const {
  return find(&FusedBatchNorm::convolution, convolution);
}
const FusedBatchNorm* BatchNormFusionPlan::of(graph::NodeId batch_norm) const {
  return find(&FusedBatchNorm::batch_norm, batch_norm);
}
const FusedBatchNorm* BatchNormFusionPlan::before(graph::NodeId convolution) const {
  return find(&FusedBatchNorm::reader, convolution);
}

namespace {

std::size_t vector_bytes(const FusedBatchNorm& fused, std::size_t element) {
  return aligned(static_cast<std::size_t>(fused.channels) * element);
}

}  // namespace

std::size_t BatchNormFusionPlan::sums_bytes() const {
  std::size_t bytes = 0;
  for (const FusedBatchNorm& fused : entries_) bytes += 2 * vector_bytes(fused, sizeof(float));
  return bytes;
}

std::size_t BatchNormFusionPlan::bytes() const {
  std::size_t bytes = sums_bytes();
  for (const FusedBatchNorm& fused : entries_)
    if (fused.has_reader()) bytes += 2 * vector_bytes(fused, sizeof(std::uint16_t));
  return bytes;
}

void BatchNormFusionPlan::place(std::byte* memory) {
  const auto take = [&memory](std::size_t bytes) { return std::exchange(memory, memory + bytes); };
  for (FusedBatchNorm& fused : entries_) {
    fused.sums = reinterpret_cast<float*>(take(vector_bytes(fused, sizeof(float))));
    fused.squares = reinterpret_cast<float*>(take(vector_bytes(fused, sizeof(float))));
  }
  for (FusedBatchNorm& fused : entries_) {
    if (!fused.has_reader()) continue;
    fused.scale = take(vector_bytes(fused, sizeof(std::uint16_t)));
    fused.offset = take(vector_bytes(fused, sizeof(std::uint16_t)));
  }
}

}  // namespace lockstep::backend::cuda
