// SPDX-License-Identifier: BSD-3-Clause
#include "blueprint.hpp"

#include <algorithm>

#include "memory_planner.hpp"
#include "recomputation.hpp"

namespace lockstep::backend {

namespace {

/// Alignment of a workspace that begins behind another one, in bytes: that of GPU kernels.
constexpr std::size_t workspace_alignment = 256;

}  // namespace

void refuse_single_values(const graph::Graph& graph, const PlanOptions& options) {
  const int replicas = options.batch_norm_sum != nullptr ? options.batch_norm_sum->replicas() : 1;
  for (graph::NodeId id = 0; id < static_cast<graph::NodeId>(graph.nodes().size()); ++id) {
    const graph::Node& node = graph.node(id);
    if (node.inputs.empty()) continue;
    const core::ImageShape input = graph.node(node.inputs[0]).output;
    const auto values = node.operation.values_per_variance({&input, 1}, replicas * options.batch);
    if (!values || *values > 1) continue;
    core::fail(core::ExitStatus::usage,
               fmt::format("{} ({}) would compute the variance of a single value, which is not "
                           "defined; use a larger batch or larger images",
                           node.name, graph.describe(id)));
  }
}

Blueprint::Blueprint(OperationFactory& factory) : factory_(factory), steps_(fuse(factory.graph())) {
  core::check(factory.options().batch > 0, "a plan has a batch");
  if (training()) refuse_single_values(factory.graph(), factory.options());
  factory_.prepare_fusion(steps_);
  make_maps();
  make_operations();
  if (training()) share_gradients();
  place_slots();
  if (training()) find_completions();
  find_filled();
}

Blueprint::Slot* Blueprint::new_slot(std::size_t bytes, int time) {
  slots_.push_back({{}, {.bytes = bytes, .first = time, .last = time}, 0});
  return &slots_.back();
}

Blueprint::Slot* Blueprint::new_slot(const FeatureMap& map, int time) {
  Slot* const slot = new_slot(map.bytes(), time);
  slot->map = map;
  return slot;
}

FeatureMap Blueprint::map_of(const Step& step, const FeatureMap* first_input) const {
  if (step.operation.is<graph::Input>()) return factory_.image_map(step.output);
  switch (step.operation.traits().form) {
    case graph::OutputForm::feature_map: break;
    case graph::OutputForm::vector:
      return {factory_.options().batch, step.output, core::DataType::float32,
              MapLayout::channels_last, nullptr};
    case graph::OutputForm::same_as_input: {
      FeatureMap map = *first_input;
      map.shape = step.output;
      return map;
    }
  }
  return factory_.feature_map(step.output);
}

void Blueprint::make_maps() {
  gradients_.resize(steps_.size());
  input_gradients_.resize(steps_.size());
  for (int i = 0; i < static_cast<int>(steps_.size()); ++i) {
    const Step& step = steps_[static_cast<std::size_t>(i)];
    const FeatureMap* const first_input =
        step.inputs.empty() ? nullptr : &outputs_[static_cast<std::size_t>(step.inputs[0])]->map;
    outputs_.push_back(new_slot(map_of(step, first_input), forward_time(i)));
    for (const int input : step.inputs) {
      const auto from = static_cast<std::size_t>(input);
      Slot* gradient = nullptr;
      if (training() && !steps_[from].operation.is<graph::Input>()) {
        gradient = new_slot(outputs_[from]->map, backward_time(i));
        gradient->lifetime.last = backward_time(input);
        gradients_[from].push_back(gradient);
      }
      input_gradients_[static_cast<std::size_t>(i)].push_back(gradient);
    }
  }
  if (!training() || !ends_at_boundary()) return;
  // The gradient of the boundary output is written between the forward and the backward pass.
  const int last = static_cast<int>(steps_.size()) - 1;
  gradients_.back().push_back(new_slot(outputs_.back()->map, backward_time(last)));
}

void Blueprint::make_operations() {
  for (int i = 0; i < static_cast<int>(steps_.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    Operands operands{
        .inputs = {}, .output = &outputs_[at]->map, .output_gradients = {}, .input_gradients = {}};
    for (const int input : steps_[at].inputs) {
      Slot& slot = *outputs_[static_cast<std::size_t>(input)];
      slot.lifetime.last = std::max(slot.lifetime.last, forward_time(i));
      operands.inputs.push_back(&slot.map);
    }
    for (Slot* gradient : gradients_[at]) operands.output_gradients.push_back(&gradient->map);
    for (Slot* gradient : input_gradients_[at])
      operands.input_gradients.push_back(gradient != nullptr ? &gradient->map : nullptr);
    operations_.push_back(factory_.make(steps_[at], std::move(operands)));
    core::report_progress(factory_.options().progress);
  }
}

/// Lets gradients of inputs use the memory of the output gradients that their operations overwrite.
void Blueprint::share_gradients() {
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (operations_[i] == nullptr) continue;
    for (std::size_t input = 0; input < input_gradients_[i].size(); ++input) {
      Slot* const written = input_gradients_[i][input];
      const auto overwritten = operations_[i]->overwritten_gradient(input);
      if (written == nullptr || !overwritten) continue;
      Slot* const read = gradients_[i][*overwritten];
      core::check(read->map.bytes() == written->map.bytes(),
                  "gradients that share memory are equal");
      written->shared = &read->owner();
      written->shared->lifetime.last = written->lifetime.last;
    }
  }
}

void Blueprint::size_workspaces() {
  for (const auto& operation : operations_) {
    if (operation == nullptr) continue;
    workspace_bytes_ = std::max(workspace_bytes_, operation->workspace_bytes());
    delayed_workspace_bytes_ =
        std::max(delayed_workspace_bytes_, operation->delayed_workspace_bytes());
  }
  if (delayed_workspace_bytes_ > 0)
    workspace_bytes_ =
        (workspace_bytes_ + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

void Blueprint::make_saved_slots() {
  saved_.resize(steps_.size(), nullptr);
  for (int i = 0; i < static_cast<int>(steps_.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (operations_[at] == nullptr || operations_[at]->saved_bytes() == 0) continue;
    saved_[at] = new_slot(operations_[at]->saved_bytes(), forward_time(i));
    if (training()) saved_[at]->lifetime.last = backward_time(i);
  }
}

/// Adds the maps that the backward pass of a step reads again, to its end, to their lifetimes.
void Blueprint::find_backward_uses(std::size_t step) {
  if (operations_[step] == nullptr) return;
  const Operation& operation = *operations_[step];
  const BackwardNeeds needs = operation.backward_needs();
  const int begin = backward_time(static_cast<int>(step));
  const Period use{begin, begin + operation.backward_delay()};
  if (needs.output) include(outputs_[step]->lifetime.again, use);
  for (Slot* const gradient : gradients_[step]) {
    int& last = gradient->owner().lifetime.last;
    last = std::max(last, use.last);
  }
  const std::vector<int>& inputs = steps_[step].inputs;
  for (std::size_t i = 0; i < std::min(needs.inputs, inputs.size()); ++i)
    include(outputs_[static_cast<std::size_t>(inputs[i])]->lifetime.again, use);
}

/// Returns the logits or the boundary output.
Blueprint::Slot& Blueprint::result_slot() const {
  return ends_at_boundary() ? *outputs_.back()
                            : *outputs_[static_cast<std::size_t>(steps_.back().inputs[0])];
}

void Blueprint::choose_recomputed_outputs() {
  std::vector<StepOutput> outputs;
  std::vector<Lifetime> others;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool can_recompute = operations_[i] != nullptr && outputs_[i] != &result_slot() &&
                               factory_.options().recomputation == Recomputation::on &&
                               operations_[i]->can_recompute();
    outputs.push_back({outputs_[i]->lifetime, steps_[i].inputs, can_recompute});
    for (const Slot* const gradient : gradients_[i])
      if (gradient->shared == nullptr) others.push_back(gradient->lifetime);
    if (saved_[i] != nullptr) others.push_back(saved_[i]->lifetime);
  }
  choose_recomputed(outputs, others);
  recomputed_before_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    outputs_[i]->lifetime = outputs[i].lifetime;
    const std::optional<Period>& again = outputs[i].lifetime.again;
    if (again) recomputed_before_[step_of_backward(again->first)].push_back(i);
  }
}

void Blueprint::place_slots() {
  size_workspaces();
  make_saved_slots();
  // The logits, or the boundary output, are read after the last step, so their lifetime extends to
  // the end of the plan. The images are written before the first step, at which their lifetime
  // begins.
  result_slot().lifetime.last = 2 * static_cast<int>(steps_.size());
  if (training()) {
    for (std::size_t i = 0; i < steps_.size(); ++i) find_backward_uses(i);
    choose_recomputed_outputs();
  }
  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(slots_.size());
  for (const Slot& slot : slots_)
    if (slot.shared == nullptr) lifetimes.push_back(slot.lifetime);
  const MemoryLayout layout = plan_memory(lifetimes);
  auto offset = layout.offsets.begin();
  for (Slot& slot : slots_)
    if (slot.shared == nullptr) slot.offset = *offset++;
  for (Slot& slot : slots_) slot.offset = slot.owner().offset;
  arena_bytes_ = layout.bytes;
}

void Blueprint::find_completions() {
  completed_after_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (operations_[i] == nullptr || operations_[i]->backward_delay() == 0) continue;
    const auto delay = static_cast<std::size_t>(operations_[i]->backward_delay());
    completed_after_[i - std::min(i, delay)].push_back(i);
  }
}

void Blueprint::find_filled() {
  const graph::Graph& graph = factory_.graph();
  std::size_t filled = 0;
  filled_after_.resize(steps_.size());
  for (std::size_t i = steps_.size(); i-- > 0;) {
    for (const std::size_t index : steps_[i].parameters) {
      const graph::Parameter& parameter = graph.parameters()[index];
      core::check(parameter.offset >= filled,
                  "gradients are filled in the order in which they stand");
      filled = parameter.offset + parameter.elements;
    }
    filled_after_[i] = filled;
  }
  hold_back_delayed();
  filled_after_[0] = graph.parameter_elements();
}

/// The gradients of a step whose backward pass is delayed, and those that follow them in the flat
/// layout, are final when it is complete.
void Blueprint::hold_back_delayed() {
  const std::vector<std::size_t> computed = filled_after_;
  for (std::size_t complete = 0; complete < completed_after_.size(); ++complete) {
    for (const std::size_t delayed : completed_after_[complete]) {
      const std::size_t before = delayed + 1 < steps_.size() ? computed[delayed + 1] : 0;
      for (std::size_t i = complete + 1; i <= delayed; ++i)
        filled_after_[i] = std::min(filled_after_[i], before);
    }
  }
}

std::vector<OperationChoice> Blueprint::choices() const {
  std::vector<OperationChoice> all;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (operations_[i] == nullptr) continue;
    const auto some = operations_[i]->choices();
    all.insert(all.end(), some.begin(), some.end());
    if (outputs_[i]->lifetime.again)
      all.push_back({.node = steps_[i].node,
                     .phase = std::string(recompute_phase),
                     .implementation = "instead of preserving the output",
                     .maps = static_cast<double>(steps_[i].inputs.size()) + 1});
  }
  return all;
}

bool Blueprint::begins_at_boundary() const {
  return steps_.front().operation.is<graph::BoundaryInput>();
}

const FeatureMap& Blueprint::boundary_input() const {
  core::check(begins_at_boundary(), "the graph has a boundary input");
  return outputs_.front()->map;
}

const FeatureMap& Blueprint::boundary_input_gradient() const {
  core::check(begins_at_boundary() && training(), "the boundary input has a gradient");
  return gradients_.front().front()->map;
}

const FeatureMap& Blueprint::boundary_output() const {
  core::check(ends_at_boundary(), "the graph has a boundary output");
  return outputs_.back()->map;
}

const FeatureMap& Blueprint::boundary_output_gradient() const {
  core::check(ends_at_boundary() && training(), "the boundary output has a gradient");
  return gradients_.back().front()->map;
}

const FeatureMap& Blueprint::logits() const {
  core::check(!ends_at_boundary(), "the graph ends with the loss");
  return outputs_[static_cast<std::size_t>(steps_.back().inputs[0])]->map;
}

void Blueprint::bind(std::byte* arena, std::byte* workspace, ModelState& state) {
  for (auto& slot : slots_) slot.map.data = arena + slot.offset;
  std::byte* const delayed_workspace =
      delayed_workspace_bytes_ > 0 ? workspace + workspace_bytes_ : workspace;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (operations_[i] == nullptr) continue;
    operations_[i]->bind({.state = &state,
                          .workspace = workspace,
                          .delayed_workspace = delayed_workspace,
                          .saved = saved_[i] != nullptr ? saved_[i]->map.data : nullptr});
  }
}

void Blueprint::tell_ended(std::size_t step, std::string_view phase) const {
  core::report_progress(factory_.options().progress);
  OperationListener* const listener = factory_.options().listener;
  if (listener != nullptr) listener->ended(steps_[step].node, phase);
}

void Blueprint::forward() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (operations_[i] == nullptr) continue;
    operations_[i]->forward();
    tell_ended(i, "forward");
  }
}

void Blueprint::backward(core::GradientListener& listener) {
  core::check(training(), "backward belongs to training");
  for (std::size_t i = steps_.size(); i-- > 0;) {
    for (const std::size_t recomputed : recomputed_before_[i]) {
      operations_[recomputed]->recompute();
      tell_ended(recomputed, recompute_phase);
    }
    run_backward(i);
    for (const std::size_t delayed : completed_after_[i]) operations_[delayed]->finish_backward();
    listener.gradients_ready(filled_after_[i]);
  }
}

void Blueprint::run_backward(std::size_t step) {
  if (Operation* const operation = operations_[step].get()) {
    const auto& gradients = operation->output_gradients();
    const std::size_t taken = operation->output_gradients_taken();
    for (std::size_t extra = taken; extra < gradients.size(); ++extra)
      factory_.add_into(*gradients[extra], *gradients[taken - 1]);
    operation->backward();
    tell_ended(step, operation->last_backward_phase());
  } else if (begins_at_boundary()) {
    const std::vector<Slot*>& gradients = gradients_[step];
    for (std::size_t extra = 1; extra < gradients.size(); ++extra)
      factory_.add_into(gradients[extra]->map, gradients[0]->map);
  }
}

}  // namespace lockstep::backend
