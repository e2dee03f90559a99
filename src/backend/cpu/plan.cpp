// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <optional>

#include "../host_plan.hpp"
#include "lockstep/core/error.hpp"
#include "operations/boundary.hpp"

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
  return {engine, dnnl::stream(engine), threads, &graph, options, &chooser, &batch, {}};
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
  if (context_.options.mode != Mode::training) return;
  statistics_ = fused_statistics(steps);
  context_.statistics = statistics_;
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

namespace {

/// A blueprint and its memory. The pages of the feature maps are allocated in the first step, each
/// on the NUMA node of the thread that computes this part of the map.
class CpuPlan final : public HostPlan {
 public:
  CpuPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options, int threads,
          ConvolutionChooser& chooser)
      : HostPlan(graph, state, options),
        operations_(graph, options, threads, chooser),
        blueprint_(operations_),
        arena_(core::Buffer::untouched(blueprint_.arena_bytes())),
        workspace_(core::Buffer::untouched(blueprint_.workspace_bytes())) {
    if (graph.boundary_inputs().empty())
      normaliser_.emplace(options.normalisation, graph.image().channels, threads);
    blueprint_.bind(arena_.data(), workspace_.data(), state);
  }

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override {
    const FeatureMap& map = blueprint_.images();
    const auto batch = static_cast<std::size_t>(map.images);
    check(labels.size() <= batch && (!is_training() || labels.size() == batch),
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

  void forward() override {
    omp_set_num_threads(operations_.threads());
    blueprint_.forward();
    if (is_training()) ++state_.batches_tracked;
  }
  BatchResult result() const override { return operations_.batch().result; }
  std::span<const float> logits() const override {
    const FeatureMap& map = blueprint_.logits();
    return {map.as<float>(), map.elements()};
  }
  void backward(core::GradientListener& listener) override {
    omp_set_num_threads(operations_.threads());
    blueprint_.backward(listener);
  }

  void set_boundary_input(std::span<const float> values) override {
    write_values(values, blueprint_.boundary_input(), operations_.threads());
  }
  void boundary_output(std::span<float> values) const override {
    read_values(blueprint_.boundary_output(), values, operations_.threads());
  }
  void set_output_gradient(std::span<const float> values) override {
    write_values(values, blueprint_.boundary_output_gradient(), operations_.threads());
  }
  void input_gradient(std::span<float> values) const override {
    read_values(blueprint_.boundary_input_gradient(), values, operations_.threads());
  }

  MemoryUse memory() const override { return memory_of(blueprint_, operations_); }
  std::vector<OperationChoice> choices() const override { return blueprint_.choices(); }

 private:
  bool is_training() const { return operations_.options().mode == Mode::training; }

  CpuOperations operations_;
  Blueprint blueprint_;
  core::Buffer arena_;
  core::Buffer workspace_;
  std::optional<ImageNormaliser> normaliser_;  ///< none if the graph does not begin with the images
};

}  // namespace

std::unique_ptr<Plan> make_plan(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options, int threads,
                                ConvolutionChooser& chooser) {
  return std::make_unique<CpuPlan>(graph, state, options, threads, chooser);
}

}  // namespace lockstep::backend::cpu
