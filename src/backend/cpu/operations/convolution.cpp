// SPDX-License-Identifier: BSD-3-Clause
// Convolutions: each direction uses the algorithm that ConvolutionChooser selects. The model stores
// weights as plain float32 KCRS. Each direction converts them, once per step, to the layout of its
// kernel, in workspace that is still in the cache when the kernel reads it.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "../cells/convolution.hpp"
#include "../convolution/convolution_choice.hpp"
#include "../fused_statistics.hpp"
#include "../onednn.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations/convolution.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

using core::DataType;
using dnnl::memory;

namespace {

ConvolutionSizes sizes_of(const graph::Convolution& operation, core::ImageShape in,
                          core::ImageShape out, std::int64_t images) {
  return {images,           in.channels,       in.height,         in.width,
          out.channels,     out.height,        out.width,         operation.kernel,
          operation.stride, operation.padding, operation.has_bias};
}

class Convolution : public Operation {
 public:
  Convolution(const graph::Convolution& operation, const Context& context, const Step& step,
              Operands given)
      : Operation(std::move(given)),
        context_(context),
        node_(context.graph->node(step.node)),
        id_(step.node),
        sizes_(sizes_of(operation, operands().inputs[0]->shape, operands().output->shape,
                        operands().output->images)) {
    const FeatureMap& source = *operands().inputs[0];
    forward_ = make(Direction::forward, source, *operands().output);
    if (context.options.mode == Mode::inference) return;
    for (FusedStatistics& statistics : context.statistics) {
      if (statistics.convolution == id_)
        statistics.is_computed = forward_->compute_statistics(statistics);
    }
    const FeatureMap& gradient = *operands().output_gradients[0];
    if (operands().input_gradients[0] != nullptr)
      backward_data_ = make(Direction::backward_data, *operands().input_gradients[0], gradient);
    backward_weights_ = make(Direction::backward_weights, source, gradient);
  }

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto* direction : {&forward_, &backward_data_, &backward_weights_}) {
      if (*direction) bytes = std::max(bytes, (*direction)->workspace_bytes());
    }
    return bytes;
  }

  void bind(const MemoryBinding& binding) override {
    const auto bind = [&](const auto& direction, const core::Buffer& flat, bool has_bias) {
      if (!direction) return;
      direction->bind(binding.workspace, context_.parameter(flat, node_, 0).data(),
                      has_bias ? context_.parameter(flat, node_, 1).data() : nullptr);
    };
    bind(forward_, binding.state->parameters, sizes_.has_bias);
    bind(backward_data_, binding.state->parameters, false);
    bind(backward_weights_, binding.state->gradients, sizes_.has_bias);
  }

  void forward() override { forward_->run(); }
  std::string_view last_backward_phase() const override {
    return name(Direction::backward_weights);
  }

  void backward() override {
    if (backward_data_) {
      backward_data_->run();
      core::report_progress(context_.options.progress);
      if (context_.options.listener != nullptr)
        context_.options.listener->ended(id_, name(Direction::backward_data));
    }
    backward_weights_->run();
  }

  std::vector<OperationChoice> choices() const override {
    std::vector<OperationChoice> choices;
    const auto add = [&](Direction direction, const auto& made) {
      if (!made) return;
      choices.push_back(
          {id_, std::string(name(direction)), made->implementation(), made->arithmetic()});
    };
    add(Direction::forward, forward_);
    add(Direction::backward_data, backward_data_);
    add(Direction::backward_weights, backward_weights_);
    return choices;
  }

 private:
  std::unique_ptr<ConvolutionDirection> make(Direction direction, const FeatureMap& source,
                                             const FeatureMap& destination) const {
    auto made = context_.chooser->make(context_, {direction, sizes_, source, destination});
    if (made == nullptr) {
      core::fail(core::ExitStatus::usage,
                 fmt::format("the CPU has no kernel for {} of {}; use another model or precision",
                             name(direction), node_.name));
    }
    return made;
  }

  const Context& context_;
  const graph::Node& node_;
  graph::NodeId id_;
  ConvolutionSizes sizes_;
  std::unique_ptr<ConvolutionDirection> forward_, backward_data_, backward_weights_;
};

/// Returns the forward kernel that oneDNN chooses if all layouts are free, for the element type
/// `wanted` or else for float32; stores that type in `type`.
dnnl::primitive_desc free_choice(const Context& context, const ConvolutionSizes& sizes,
                                 DataType wanted, DataType& type) {
  for (const DataType candidate : {wanted, DataType::float32}) {
    type = candidate;
    const memory::desc source({sizes.images, sizes.in_channels, sizes.in_height, sizes.in_width},
                              to_onednn(type), memory::format_tag::any);
    const memory::desc destination(
        {sizes.images, sizes.out_channels, sizes.out_height, sizes.out_width}, to_onednn(type),
        memory::format_tag::any);
    if (auto found = describe(context.engine, Direction::forward, sizes, source, destination))
      return found;
  }
  return {};
}

/// A convolution of the graph and the directions that the plan needs.
struct PlannedConvolution {
  ConvolutionSizes sizes;
  core::ImageShape source, destination;
  double flops = 0;
  bool reads_images = false;
  std::vector<Direction> directions;
};

std::vector<PlannedConvolution> convolutions_of(const Context& context) {
  const graph::Graph& graph = *context.graph;
  std::vector<PlannedConvolution> nodes;
  for (graph::NodeId id = 0; id < static_cast<graph::NodeId>(graph.nodes().size()); ++id) {
    const graph::Node& node = graph.node(id);
    const auto* const operation = node.operation.get_if<graph::Convolution>();
    if (operation == nullptr) continue;
    const graph::Node& from = graph.node(node.inputs[0]);
    // Some operations, such as ReLU, keep the layout of the images.
    const graph::Node* source = &from;
    while (!source->inputs.empty() &&
           source->operation.traits().form == graph::OutputForm::same_as_input)
      source = &graph.node(source->inputs[0]);
    PlannedConvolution added{sizes_of(*operation, from.output, node.output, context.options.batch),
                             from.output,
                             node.output,
                             graph.cost(id).forward_flops,
                             source->operation.is<graph::Input>(),
                             {Direction::forward}};
    if (context.options.mode == Mode::training) {
      if (!added.reads_images) added.directions.push_back(Direction::backward_data);
      added.directions.push_back(Direction::backward_weights);
    }
    nodes.push_back(std::move(added));
  }
  return nodes;
}

/// Returns the layouts that oneDNN prefers: for activations, the one with most of the FLOPs.
PreferredLayouts onednn_layouts(const Context& context,
                                const std::vector<PlannedConvolution>& nodes, DataType wanted) {
  PreferredLayouts preferred;
  std::map<MapLayout, double> flops;  // sum over the convolutions that would write each layout
  for (const PlannedConvolution& node : nodes) {
    DataType type = wanted;
    const dnnl::primitive_desc choice = free_choice(context, node.sizes, wanted, type);
    if (!choice) continue;  // creating the operation throws, with the reason
    if (const auto layout =
            layout_of(choice.dst_desc(0), node.sizes.images, node.destination, type))
      flops[*layout] += node.flops;
    if (node.reads_images) {
      preferred.images = layout_of(choice.src_desc(0), node.sizes.images, node.source, type)
                             .value_or(MapLayout::planar);
    }
  }
  const auto most =
      std::ranges::max_element(flops, {}, [](const auto& entry) { return entry.second; });
  if (most != flops.end()) preferred.activations = most->first;
  return preferred;
}

/// Calls visit(problem) for each direction of the convolutions, with maps of these layouts, until
/// it returns false. Returns true if it never did.
template <class Visit>
bool all_directions(const std::vector<PlannedConvolution>& nodes, PreferredLayouts layouts,
                    Visit&& visit) {
  for (const PlannedConvolution& node : nodes) {
    const FeatureMap source{node.sizes.images, node.source, DataType::bfloat16,
                            node.reads_images ? layouts.images : layouts.activations, nullptr};
    const FeatureMap destination{node.sizes.images, node.destination, DataType::bfloat16,
                                 layouts.activations, nullptr};
    for (const Direction direction : node.directions) {
      if (!visit(ConvolutionProblem{direction, node.sizes, source, destination})) return false;
    }
  }
  return true;
}

/// Returns the time of all convolutions of a step in these layouts, in seconds per image.
double seconds_per_image(const Context& context, const std::vector<PlannedConvolution>& nodes,
                         PreferredLayouts layouts) {
  double seconds = 0;
  all_directions(nodes, layouts, [&](const ConvolutionProblem& problem) {
    seconds += context.chooser->seconds_per_image(context, problem);
    return true;
  });
  return seconds;
}

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Convolution& operation,
                                          const Context& context, const Step& step,
                                          Operands operands) {
  return std::make_unique<Convolution>(operation, context, step, std::move(operands));
}

PreferredLayouts preferred_layouts(const Context& context) {
  const bool is_bfloat16 = context.options.precision == core::Precision::bf16;
  const std::vector<PlannedConvolution> nodes = convolutions_of(context);
  const PreferredLayouts preferred =
      onednn_layouts(context, nodes, is_bfloat16 ? DataType::bfloat16 : DataType::float32);
  if (!is_bfloat16 || nodes.empty() || !context.chooser->may_use_cells(context.options))
    return preferred;
  // Maps that `cells` processes in place.
  constexpr PreferredLayouts blocked{.activations = MapLayout::blocked32x32,
                                     .images = MapLayout::planar};
  if (!all_directions(nodes, blocked, cells::fits)) return preferred;
  if (!context.chooser->is_timed(context.options)) return blocked;
  return seconds_per_image(context, nodes, preferred) > seconds_per_image(context, nodes, blocked)
             ? blocked
             : preferred;
}

}  // namespace lockstep::backend::cpu
