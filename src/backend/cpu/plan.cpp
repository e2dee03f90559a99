// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <fmt/format.h>
#include <omp.h>

#include "lockstep/core/error.hpp"

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

Context make_context(int threads, const graph::Graph& graph, const PlanOptions& options,
                     ConvolutionChooser& chooser, BatchData& batch) {
  omp_set_num_threads(threads);  // oneDNN creates kernels for this number of threads
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return {engine, dnnl::stream(engine), threads, &graph, options, &chooser, &batch, nullptr};
}

}  // namespace

CpuOperations::CpuOperations(const graph::Graph& graph, const PlanOptions& options, int threads,
                             ConvolutionChooser& chooser)
    : graph_(graph),
      context_(make_context(threads, graph_, options, chooser, batch_)),
      layouts_(preferred_layouts(context_)) {
  batch_.labels.reserve(static_cast<std::size_t>(options.batch));
}

void CpuOperations::prepare_fusion(const std::vector<Step>& steps) {
  if (context_.options.mode == Mode::training) context_.statistics = &statistics_.emplace(steps);
}

FeatureMap CpuOperations::image_map(core::ImageShape shape) const {
  return {context_.options.batch, shape, storage_type(context_.options.precision), layouts_.images,
          nullptr};
}

FeatureMap CpuOperations::feature_map(core::ImageShape shape) const {
  return {context_.options.batch, shape, storage_type(context_.options.precision),
          layouts_.activations, nullptr};
}

std::unique_ptr<Operation> CpuOperations::make(const Step& step, Operands operands) {
  return build_operation(context_, step, std::move(operands));
}

void CpuOperations::add_into(const FeatureMap& from, const FeatureMap& to) {
  cpu::add_into(from, to);
}

MemoryUse memory_of(const Blueprint& blueprint, const CpuOperations& operations) {
  const graph::Graph& graph = operations.graph();
  const std::size_t state =
      operations.options().parameter_bytes(graph.parameter_elements()) +
      (graph.parameter_elements() + graph.statistic_elements()) * sizeof(float);
  return {.state = state,
          .activations = blueprint.arena_bytes(),
          .weights = 0,
          .workspace = blueprint.workspace_bytes()};
}

CpuPlan::CpuPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options,
                 int threads, ConvolutionChooser& chooser)
    : HostPlan(graph, state, options),
      operations_(graph, options, threads, chooser),
      blueprint_(operations_),
      arena_(core::Buffer::untouched(blueprint_.arena_bytes())),
      workspace_(core::Buffer::untouched(blueprint_.workspace_bytes())) {
  if (graph.boundary_inputs().empty())
    normaliser_.emplace(options.normalisation, graph.image().channels, threads);
  blueprint_.bind(arena_.data(), workspace_.data(), state);
}

void CpuPlan::upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) {
  const FeatureMap& map = blueprint_.images();
  const auto batch = static_cast<std::size_t>(map.images);
  const bool is_training = operations_.options().mode == Mode::training;
  check(labels.size() <= batch && (!is_training || labels.size() == batch),
        "a batch fits its plan");
  if (normaliser_) {
    check(images.size() == labels.size() * static_cast<std::size_t>(map.shape.elements()),
          "an image per label");
    normaliser_->run(images, map);
  }
  if (operations_.graph().boundary_outputs().empty()) {
    const std::int64_t classes = operations_.graph().classes();
    for (const std::int32_t label : labels)
      check(label >= 0 && label < classes, "a label is one of the classes");
  }
  operations_.batch().labels.assign(labels.begin(), labels.end());
  operations_.batch().step = state_.batches_tracked;
}

void CpuPlan::forward() {
  omp_set_num_threads(operations_.threads());
  blueprint_.forward();
  if (operations_.options().mode == Mode::training) ++state_.batches_tracked;
}

std::span<const float> CpuPlan::logits() const {
  const FeatureMap& map = blueprint_.logits();
  return {map.as<float>(), map.elements()};
}

void CpuPlan::set_boundary_input(std::span<const float> values) {
  write_values(values, blueprint_.boundary_input(), operations_.threads());
}

void CpuPlan::boundary_output(std::span<float> values) const {
  read_values(blueprint_.boundary_output(), values, operations_.threads());
}

void CpuPlan::set_output_gradient(std::span<const float> values) {
  write_values(values, blueprint_.boundary_output_gradient(), operations_.threads());
}

void CpuPlan::input_gradient(std::span<float> values) const {
  read_values(blueprint_.boundary_input_gradient(), values, operations_.threads());
}

void CpuPlan::backward(core::GradientListener& listener) {
  omp_set_num_threads(operations_.threads());
  blueprint_.backward(listener);
}

}  // namespace lockstep::backend::cpu
