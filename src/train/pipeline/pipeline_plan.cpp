// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline_plan.hpp"

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::train {

namespace {

/// Returns the bytes of the boundary input and of the boundary output of a stage for `images`
/// images; 0 if it has none.
std::pair<std::size_t, std::size_t> message_bytes(const Pipeline& pipeline, std::int64_t images) {
  const auto bytes = [&](const graph::Node& node) {
    return static_cast<std::size_t>(images * node.output.elements()) * sizeof(float);
  };
  const std::vector<graph::Node>& nodes = pipeline.graph().nodes();
  return {pipeline.is_first() ? 0 : bytes(nodes.front()),
          pipeline.is_last() ? 0 : bytes(nodes.back())};
}

/// Executes steps by the executor of the first micro-batch's plan, which owns the work, and returns
/// the results of all micro-batches.
class PipelineStepExecutor final : public backend::StepExecutor {
 public:
  PipelineStepExecutor(const PipelinePlan& plan, std::unique_ptr<backend::StepExecutor> executor)
      : StepExecutor(nullptr), plan_(plan), executor_(std::move(executor)) {}

  void begin() override { executor_->begin(); }
  void run() override { executor_->run(); }
  backend::BatchResult collect() override {
    executor_->collect();
    return plan_.result();
  }

 private:
  const PipelinePlan& plan_;
  std::unique_ptr<backend::StepExecutor> executor_;
};

/// Adds the sums to the gradients that are final before it notifies the next listener.
class AddingListener final : public core::GradientListener {
 public:
  AddingListener(backend::GradientSums& sums, core::GradientListener& next)
      : sums_(sums), next_(next) {}

  void gradients_ready(std::size_t elements) override {
    if (elements > added_) sums_.add_to_gradients(added_, elements - added_);
    added_ = elements;
    next_.gradients_ready(elements);
  }

 private:
  backend::GradientSums& sums_;
  core::GradientListener& next_;
  std::size_t added_ = 0;
};

/// Adds the duration of `work` to `seconds`.
template <class Work>
void time(double& seconds, Work&& work) {
  const double begin = core::host_seconds();
  work();
  seconds += core::host_seconds() - begin;
}

/// Returns the passes of a step; in inference one forward pass.
std::vector<PipelineAction> actions_of(const Pipeline& pipeline, backend::Mode mode) {
  if (mode == backend::Mode::inference) return {{Pass::forward, 0}};
  return pipeline_actions(pipeline.schedule, pipeline.stage, pipeline.count(),
                          pipeline.micro_batches);
}

}  // namespace

backend::MemoryUse pipeline_memory(const Pipeline& pipeline, const backend::MemoryUse& micro_batch,
                                   const backend::PlanOptions& options,
                                   const backend::Device& device) {
  const bool is_training = options.mode == backend::Mode::training;
  const std::int64_t micro_batches = is_training ? pipeline.micro_batches : 1;
  const std::size_t slots = is_training ? static_cast<std::size_t>(pipeline.in_flight()) : 1;
  const auto [in, out] = message_bytes(pipeline, options.batch / micro_batches);
  // Received, and sent from each slot. The memory of a GPU does not contain them.
  const std::size_t in_host_memory = is_training ? (1 + slots) * (in + out) : in + out;
  const std::size_t messages = device.queue().is_host() ? in_host_memory : 0;
  const std::size_t sums =
      micro_batches > 1 ? pipeline.graph().parameter_elements() * sizeof(float) : 0;
  return {.state = micro_batch.state,
          .activations = slots * micro_batch.activations,
          .weights = slots * micro_batch.weights,
          .workspace = slots * micro_batch.workspace + messages + sums};
}

std::unique_ptr<backend::Plan> make_plan(const Pipeline* pipeline, const graph::Graph& graph,
                                         const backend::Backend& backend,
                                         backend::ModelState& state,
                                         const backend::PlanOptions& options, WarmUp warm_up) {
  if (pipeline == nullptr) return backend.compile(graph, state, options);
  return std::make_unique<PipelinePlan>(*pipeline, backend, state, options, warm_up);
}

PipelinePlan::PipelinePlan(const Pipeline& pipeline, const backend::Backend& backend,
                           backend::ModelState& state, const backend::PlanOptions& options,
                           WarmUp when)
    : pipeline_(pipeline),
      micro_batches_(options.mode == backend::Mode::training ? pipeline.micro_batches : 1),
      actions_(actions_of(pipeline, options.mode)),
      first_backward_(static_cast<std::size_t>(
          std::ranges::find(actions_, Pass::backward, &PipelineAction::pass) - actions_.begin())),
      slots_(static_cast<std::size_t>(most_in_flight(actions_))),
      sums_(micro_batches_ > 1 ? backend.make_gradient_sums(state, options.gradient_type)
                               : nullptr),
      backend_(backend),
      options_(options) {
  core::check(options.batch % micro_batches_ == 0, "micro-batches divide the batch");
  backend::PlanOptions micro_batch = options;
  micro_batch.batch = options.batch / micro_batches_;
  // The sums are those of the flat gradients.
  if (micro_batches_ > 1)
    micro_batch.gradient_reduction = backend::GradientReduction::over_replicas;
  const int stage = pipeline.stage;
  const auto [in, out] = message_bytes(pipeline, micro_batch.batch);
  const bool is_training = options.mode == backend::Mode::training;
  comm::Communicator& stages = *pipeline.stages;
  for (Slot& slot : slots_) {
    slot.plan = backend.compile(pipeline.graph(), state, micro_batch);
    slot.passes = slot.plan->stage_passes();
    if (out > 0) {
      slot.output = backend.host_buffer(out);
      slot.send_output = stages.make_send(slot.output.as<std::byte>(), stage + 1);
    }
    if (in > 0 && is_training) {
      slot.gradient = backend.host_buffer(in);
      slot.send_gradient = stages.make_send(slot.gradient.as<std::byte>(), stage - 1);
    }
  }
  if (in > 0) {
    input_ = backend.host_buffer(in);
    receive_input_ = stages.make_receive(input_.as<std::byte>(), stage - 1);
  }
  if (out > 0 && is_training) {
    output_gradient_ = backend.host_buffer(out);
    receive_gradient_ = stages.make_receive(output_gradient_.as<std::byte>(), stage + 1);
  }
  if (when == WarmUp::always || !backend.device().queue().is_host()) warm_up(state);
}

void PipelinePlan::warm_up(backend::ModelState& state) {
  const std::int64_t batches = state.batches_tracked;
  const auto images = static_cast<std::size_t>(options_.batch / micro_batches_);
  const std::size_t image =
      pipeline_.is_first() ? static_cast<std::size_t>(pipeline_.graph().image().elements()) : 0;
  const std::vector<std::uint8_t> pixels(images * image);
  const std::vector<std::int32_t> labels(images);
  core::NoGradientListener no_listener;
  for (Slot& slot : slots_) {
    slot.plan->upload(pixels, labels);
    if (input_.bytes() > 0) slot.passes->set_boundary_input(input_.as<float>());
    slot.plan->forward();
    if (slot.output.bytes() > 0) slot.passes->boundary_output(slot.output.as<float>());
    if (options_.mode == backend::Mode::inference) continue;
    if (output_gradient_.bytes() > 0)
      slot.passes->set_output_gradient(output_gradient_.as<float>());
    accumulate(*slot.plan, 0, no_listener);
    if (micro_batches_ > 1) accumulate(*slot.plan, micro_batches_ - 1, no_listener);
    if (slot.gradient.bytes() > 0) slot.passes->input_gradient(slot.gradient.as<float>());
  }
  if (options_.mode == backend::Mode::inference) return;
  update(0, pipeline_.graph().parameter_elements());
  state.batches_tracked = batches;
  backend_.store(state);
}

void PipelinePlan::upload(std::span<const std::uint8_t> images,
                          std::span<const std::int32_t> labels) {
  images_ = images;
  labels_ = labels;
}

void PipelinePlan::forward_pass(std::int64_t micro_batch) {
  Slot& slot = slot_of(micro_batch);
  if (receive_input_ != nullptr) {
    time(seconds_.wait, [&] {
      receive_input_->start();
      receive_input_->wait();
    });
    time(seconds_.transfer, [&] { slot.passes->set_boundary_input(input_.as<float>()); });
  }
  time(seconds_.busy, [&] {
    const auto count = labels_.size() / static_cast<std::size_t>(micro_batches_);
    const auto first = static_cast<std::size_t>(micro_batch) * count;
    const std::size_t image = images_.size() / labels_.size();
    slot.plan->upload(images_.subspan(first * image, count * image), labels_.subspan(first, count));
    slot.plan->forward();
    slot.passes->synchronise();
  });
  const backend::BatchResult result = slot.plan->result();
  result_.loss_sum += result.loss_sum;
  result_.correct += result.correct;
  result_.images += result.images;
  if (slot.send_output == nullptr) return;
  time(seconds_.wait, [&] { slot.send_output->wait(); });
  time(seconds_.transfer, [&] {
    slot.passes->boundary_output(slot.output.as<float>());
    slot.send_output->start();
  });
}

void PipelinePlan::backward_pass(std::int64_t micro_batch, core::GradientListener& listener) {
  Slot& slot = slot_of(micro_batch);
  if (receive_gradient_ != nullptr) {
    time(seconds_.wait, [&] {
      receive_gradient_->start();
      receive_gradient_->wait();
    });
    time(seconds_.transfer,
         [&] { slot.passes->set_output_gradient(output_gradient_.as<float>()); });
  }
  time(seconds_.busy, [&] {
    accumulate(*slot.plan, micro_batch, listener);
    slot.passes->synchronise();
  });
  if (slot.send_gradient == nullptr) return;
  time(seconds_.wait, [&] { slot.send_gradient->wait(); });
  time(seconds_.transfer, [&] {
    slot.passes->input_gradient(slot.gradient.as<float>());
    slot.send_gradient->start();
  });
}

void PipelinePlan::forward() {
  result_ = {};
  for (std::size_t i = 0; i < first_backward_; ++i) forward_pass(actions_[i].micro_batch);
  const bool is_inference = first_backward_ == actions_.size();
  if (is_inference) time(seconds_.wait, [&] { finish_sends(); });
}

void PipelinePlan::backward(core::GradientListener& listener) {
  for (std::size_t i = first_backward_; i < actions_.size(); ++i) {
    const auto [pass, micro_batch] = actions_[i];
    if (pass == Pass::forward) {
      forward_pass(micro_batch);
    } else {
      backward_pass(micro_batch, listener);
    }
  }
  time(seconds_.wait, [&] { finish_sends(); });
}

void PipelinePlan::accumulate(backend::Plan& plan, std::int64_t micro_batch,
                              core::GradientListener& listener) {
  if (micro_batches_ == 1) return plan.backward(listener);
  if (micro_batch == micro_batches_ - 1) {
    AddingListener adding(*sums_, listener);
    return plan.backward(adding);
  }
  core::NoGradientListener no_listener;
  plan.backward(no_listener);
  if (micro_batch == 0) sums_->clear();
  sums_->add_gradients();
}

void PipelinePlan::finish_sends() {
  for (Slot& slot : slots_) {
    if (slot.send_output != nullptr) slot.send_output->wait();
    if (slot.send_gradient != nullptr) slot.send_gradient->wait();
  }
}

void PipelinePlan::set_coefficients(const optim::Coefficients& coefficients) {
  optim::Coefficients mean = coefficients;
  mean.gradient_scale /= static_cast<float>(micro_batches_);
  slots_.front().plan->set_coefficients(mean);
}

std::unique_ptr<backend::StepExecutor> PipelinePlan::make_step_executor(
    std::unique_ptr<backend::StepWork> work) {
  return std::make_unique<PipelineStepExecutor>(
      *this, slots_.front().passes->make_eager_executor(std::move(work)));
}

backend::MemoryUse PipelinePlan::memory() const {
  return pipeline_memory(pipeline_, slots_.front().plan->memory(), options_, backend_.device());
}

}  // namespace lockstep::train
