#include "plan.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "../checks.hpp"
#include "lockstep/core/error.hpp"
#include "row_kernels.hpp"

namespace lockstep::backend::cpu {

using core::check;
using core::DataType;

namespace {

DataType storage_type(core::Precision precision) {
  switch (precision) {
    case core::Precision::fp32: return DataType::float32;
    case core::Precision::bf16: return DataType::bfloat16;
    case core::Precision::tf32:
    case core::Precision::fp16: break;
  }
  core::fail(core::ExitStatus::usage,
             fmt::format("--precision {} exists on GPUs only; on a CPU use fp32 or bf16",
                         core::name(precision)));
}

bool has_parameters(const Step& step) {
  return step.kind == StepKind::convolution || step.kind == StepKind::batch_norm ||
         step.kind == StepKind::linear;
}

/// Adds gradients from `first_extra` on into the one before, so that `first_extra` of them are
/// left.
void combine(const std::vector<const FeatureMap*>& gradients, std::size_t first_extra) {
  for (std::size_t i = first_extra; i < gradients.size(); ++i) {
    const FeatureMap& to = *gradients[first_extra - 1];
    const auto count = static_cast<std::int64_t>(to.elements());
    if (to.type == DataType::bfloat16) {
      add_into(gradients[i]->as<core::BFloat16>(), to.as<core::BFloat16>(), count);
    } else {
      add_into(gradients[i]->as<float>(), to.as<float>(), count);
    }
  }
}

Context make_context(int threads, const PlanOptions& options, ConvolutionChooser& chooser) {
  omp_set_num_threads(threads);  // oneDNN plans its kernels for this many
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return {engine, dnnl::stream(engine), threads, nullptr, options, &chooser};
}

}  // namespace

Blueprint::Blueprint(const graph::Graph& graph, const PlanOptions& options, int threads,
                     ConvolutionChooser& chooser)
    : graph_(graph), context_(make_context(threads, options, chooser)), steps_(fuse(graph_)) {
  check(options.batch > 0, "a plan has a batch");
  if (options.mode == Mode::training) refuse_single_values(graph_, options);
  context_.graph = &graph_;
  make_operations();
  place_slots();
}

FeatureMap Blueprint::map_of(const Step& step, const PreferredLayouts& layouts) const {
  const auto type = storage_type(context_.options.precision);
  const std::int64_t images = context_.options.batch;
  switch (step.kind) {
    case StepKind::input: return {images, step.output, type, layouts.images, nullptr};
    case StepKind::average_pool:
    case StepKind::linear:
    case StepKind::loss:
      return {images, step.output, DataType::float32, MapLayout::channels_last, nullptr};
    case StepKind::relu:
    case StepKind::add: {  // element by element: as what they read
      FeatureMap map = outputs_[static_cast<std::size_t>(step.inputs[0])]->map;
      map.shape = step.output;
      return map;
    }
    default: return {images, step.output, type, layouts.activations, nullptr};
  }
}

Blueprint::Slot* Blueprint::new_slot(const FeatureMap& map, int time) {
  slots_.push_back({map, map.bytes(), time, time, 0});
  return &slots_.back();
}

std::unique_ptr<Operation> Blueprint::make_operation(const Step& step, Ports ports) {
  switch (step.kind) {
    case StepKind::input: return nullptr;
    case StepKind::convolution: return make_convolution(context_, step, std::move(ports));
    case StepKind::batch_norm: return make_batch_norm(context_, step, std::move(ports));
    case StepKind::relu: return make_relu(context_, std::move(ports));
    case StepKind::add: return make_add(context_, std::move(ports));
    case StepKind::max_pool: return make_max_pool(context_, step, std::move(ports));
    case StepKind::average_pool: return make_average_pool(context_, std::move(ports));
    case StepKind::linear: return make_linear(context_, step, std::move(ports));
    case StepKind::loss: {
      auto loss = make_softmax_cross_entropy(context_, step, std::move(ports));
      loss_ = loss.get();
      return loss;
    }
  }
  check(false, "unknown step");
  return nullptr;
}

void Blueprint::make_operations() {
  const PreferredLayouts layouts = preferred_layouts(context_);
  const auto count = static_cast<int>(steps_.size());
  gradients_.resize(steps_.size());
  std::vector<std::vector<Slot*>> input_gradients(steps_.size());
  for (int i = 0; i < count; ++i) {
    const Step& step = steps_[static_cast<std::size_t>(i)];
    outputs_.push_back(new_slot(map_of(step, layouts), forward_time(i)));
    for (const int input : step.inputs) {
      const auto from = static_cast<std::size_t>(input);
      Slot* gradient = nullptr;
      if (training() && steps_[from].kind != StepKind::input) {
        gradient = new_slot(outputs_[from]->map, backward_time(i));
        gradient->last = backward_time(input);
        gradients_[from].push_back(gradient);
      }
      input_gradients[static_cast<std::size_t>(i)].push_back(gradient);
    }
  }
  const auto map_or_null = [](Slot* slot) -> const FeatureMap* {
    return slot != nullptr ? &slot->map : nullptr;
  };
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Ports ports{
        .inputs = {}, .output = &outputs_[at]->map, .output_gradients = {}, .input_gradients = {}};
    for (const int input : steps_[at].inputs) {
      Slot& slot = *outputs_[static_cast<std::size_t>(input)];
      slot.last = std::max(slot.last, forward_time(i));
      ports.inputs.push_back(&slot.map);
    }
    for (Slot* gradient : gradients_[at]) ports.output_gradients.push_back(&gradient->map);
    for (Slot* gradient : input_gradients[at])
      ports.input_gradients.push_back(map_or_null(gradient));
    operations_.push_back(make_operation(steps_[at], std::move(ports)));
  }
}

void Blueprint::place_slots() {
  const auto count = static_cast<int>(steps_.size());
  kept_.resize(steps_.size(), nullptr);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Operation* operation = operations_[at].get();
    if (operation == nullptr) continue;
    scratch_bytes_ = std::max(scratch_bytes_, operation->scratch_bytes());
    const int end = training() ? backward_time(i) : forward_time(i);
    if (operation->kept_bytes() > 0) {
      slots_.push_back({{}, operation->kept_bytes(), forward_time(i), end, 0});
      kept_[at] = &slots_.back();
    }
    if (!training()) continue;
    const BackwardNeeds needs = operation->backward_needs();
    if (needs.output) outputs_[at]->last = end;
    if (!needs.inputs) continue;
    for (const int input : steps_[at].inputs) {
      Slot& slot = *outputs_[static_cast<std::size_t>(input)];
      slot.last = std::max(slot.last, end);
    }
  }
  // What the outside reads stays until the plan's end: the images are written before the first
  // step, the logits are read after the last.
  const int end = 2 * count;
  outputs_[static_cast<std::size_t>(steps_.back().inputs[0])]->last = end;
  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(slots_.size());
  for (const Slot& slot : slots_) lifetimes.push_back({slot.bytes, slot.first, slot.last});
  const MemoryLayout layout = plan_memory(lifetimes);
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].offset = layout.offsets[i];
  arena_bytes_ = layout.bytes;
}

MemoryUse Blueprint::memory() const {
  const std::size_t state =
      (3 * graph_.parameter_elements() + graph_.statistic_elements()) * sizeof(float);
  return {.state = state, .activations = arena_bytes_, .weights = 0, .workspace = scratch_bytes_};
}

std::vector<OperationChoice> Blueprint::choices() const {
  std::vector<OperationChoice> all;
  for (const auto& operation : operations_) {
    if (operation == nullptr) continue;
    const auto some = operation->choices();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

CpuPlan::CpuPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options,
                 int threads, ConvolutionChooser& chooser)
    : blueprint_(graph, options, threads, chooser),
      state_(state),
      arena_(blueprint_.arena_bytes_),
      scratch_(blueprint_.scratch_bytes_),
      normaliser_(options.normalisation, graph.image().channels, threads) {
  for (auto& slot : blueprint_.slots_) slot.map.data = arena_.data() + slot.offset;
  std::size_t filled = 0;
  filled_after_.resize(blueprint_.steps_.size());
  for (std::size_t i = blueprint_.steps_.size(); i-- > 0;) {
    const Step& step = blueprint_.steps_[i];
    if (has_parameters(step)) {
      for (const std::size_t index : graph.node(step.node).parameters) {
        const graph::Parameter& parameter = graph.parameters()[index];
        check(parameter.offset >= filled, "gradients are filled in the order in which they stand");
        filled = parameter.offset + parameter.elements;
      }
    }
    filled_after_[i] = filled;
    if (blueprint_.operations_[i] == nullptr) continue;
    std::byte* const kept =
        blueprint_.kept_[i] != nullptr ? blueprint_.kept_[i]->map.data : nullptr;
    blueprint_.operations_[i]->bind({&state, scratch_.data(), kept});
  }
  filled_after_[0] = graph.parameter_elements();
}

void CpuPlan::upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) {
  const FeatureMap& map = blueprint_.outputs_[0]->map;
  const auto batch = static_cast<std::size_t>(map.images);
  check(labels.size() <= batch && (!blueprint_.training() || labels.size() == batch),
        "a batch fits its plan");
  check(images.size() == labels.size() * static_cast<std::size_t>(map.shape.elements()),
        "an image per label");
  normaliser_.run(images, map);
  blueprint_.loss_->set_labels(labels);
}

void CpuPlan::forward() {
  omp_set_num_threads(blueprint_.context_.threads);
  for (std::size_t i = 0; i < blueprint_.steps_.size(); ++i) {
    if (Operation* operation = blueprint_.operations_[i].get()) {
      operation->forward();
      tell_ended(i, "forward");
    }
  }
  if (blueprint_.training()) ++state_.batches_tracked;
}

void CpuPlan::tell_ended(std::size_t step, std::string_view phase) const {
  OperationListener* const listener = blueprint_.context_.options.listener;
  if (listener != nullptr) listener->ended(blueprint_.steps_[step].node, phase);
}

std::span<const float> CpuPlan::logits() const {
  const auto from = static_cast<std::size_t>(blueprint_.steps_.back().inputs[0]);
  const FeatureMap& map = blueprint_.outputs_[from]->map;
  return {map.as<float>(), map.elements()};
}

void CpuPlan::backward(core::GradientListener& listener) {
  check(blueprint_.training(), "backward belongs to training");
  omp_set_num_threads(blueprint_.context_.threads);
  for (std::size_t i = blueprint_.steps_.size(); i-- > 0;) {
    if (Operation* operation = blueprint_.operations_[i].get()) {
      combine(operation->output_gradients(), operation->output_gradients_taken());
      operation->backward();
      const bool is_convolution = blueprint_.steps_[i].kind == StepKind::convolution;
      tell_ended(i, is_convolution ? "backward weights" : "backward");
    }
    listener.filled_to(filled_after_[i]);
  }
}

}  // namespace lockstep::backend::cpu
