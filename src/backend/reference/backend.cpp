// SPDX-License-Identifier: BSD-3-Clause
#include "backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "../blueprint.hpp"
#include "../host_plan.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/graph/operations.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

/// Returns the number of logits of a batch; 0 if the graph does not end with the loss.
std::size_t logit_count(const graph::Graph& graph, const PlanOptions& options) {
  if (!graph.boundary_outputs().empty()) return 0;
  return static_cast<std::size_t>(options.batch * graph.classes());
}

std::vector<OperationChoice> choices_of(const graph::Graph& graph, Mode mode) {
  std::vector<OperationChoice> choices;
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const auto node = static_cast<graph::NodeId>(id);
    choices.push_back({node, "forward", "plain loops in float64"});
    if (mode == Mode::inference || graph.node(node).operation.is<graph::Input>()) continue;
    choices.push_back({node, "backward data", "plain loops in float64"});
    if (graph.node(node).parameters.empty()) continue;
    choices.push_back({node, "backward weights", "plain loops in float64"});
  }
  return choices;
}

/// Converts uint8 images (n, C, H, W) to normalised values, as ToTensor and Normalize of
/// torchvision do: y = (pixel / 255 - mean_c) / deviation_c.
void normalise(const Normalisation& normalisation, std::span<const std::uint8_t> images,
               Tensor& y) {
  auto pixel = images.begin();
  for (std::int64_t n = 0; n < y.batch; ++n) {
    for (std::int64_t c = 0; c < y.shape.channels; ++c) {
      const auto statistic = static_cast<std::size_t>(std::min<std::int64_t>(c, 2));
      const double mean = normalisation.mean[statistic];
      const double deviation = normalisation.standard_deviation[statistic];
      for (double& value : y.plane(n, c)) value = (*pixel++ / 255.0 - mean) / deviation;
    }
  }
}

template <class From, class To>
void copy_values(std::span<const From> from, std::span<To> to) {
  core::check(from.size() == to.size(), "a boundary value has the size of its tensor");
  std::ranges::copy(from, to.begin());
}

/// Computes a graph node by node in float64 and keeps every feature map and gradient. The
/// ModelState stays float32: parameters are read at each forward pass, and gradients are rounded
/// once at the end.
class ReferencePlan final : public HostPlan {
 public:
  ReferencePlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options,
                const MemoryUse& memory)
      : HostPlan(graph, state, options),
        graph_(graph),
        memory_(memory),
        parameters_(graph.parameter_elements()),
        data_{.options = options},
        logits_(logit_count(graph, options)) {
    data_.labels.resize(options.batch);
    if (options.mode == Mode::training) {
      refuse_single_values(graph, options);
      gradients_.resize(graph.parameter_elements());
    }
    nodes_.reserve(graph_.nodes().size());
    for (const graph::Node& node : graph_.nodes()) nodes_.push_back(make_data(node));
  }

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override {
    const auto count = static_cast<std::int64_t>(labels.size());
    core::check(count > 0 && count <= data_.options.batch, "a batch has 1 to `batch` images");
    core::check(data_.options.mode == Mode::inference || count == data_.options.batch,
                "a training batch is full");
    const bool has_images = graph_.nodes().front().operation.is<graph::Input>();
    core::check(!has_images ||
                    static_cast<std::int64_t>(images.size()) == count * graph_.image().elements(),
                "there are as many images as labels");
    for (const std::int32_t label : labels) {
      core::check(ends_at_boundary() || (label >= 0 && label < graph_.classes()),
                  "labels name classes of the network");
    }
    for (NodeData& node : nodes_) node.y.batch = node.dy.batch = count;
    data_.labels.assign(labels.begin(), labels.end());
    data_.step = state_.batches_tracked;
    if (has_images) normalise(data_.options.normalisation, images, nodes_.front().y);
  }

  void forward() override {
    std::ranges::copy(state_.parameters.as<float>().first(parameters_.size()), parameters_.begin());
    for (std::size_t id = 0; id < nodes_.size(); ++id) {
      graph_.nodes()[id].operation.visit([&]<class Kind>(const Kind& operation) {
        if constexpr (!graph::is_source<Kind>) reference::forward(operation, nodes_[id], data_);
      });
      core::report_progress(data_.options.progress);
    }
    if (data_.options.mode == Mode::training) ++state_.batches_tracked;
    if (ends_at_boundary()) return;
    std::ranges::copy(nodes_.back().x().all(), logits_.begin());
  }

  std::span<const float> logits() const override {
    return std::span(logits_).first(data_.result.images * graph_.classes());
  }

  void backward(core::GradientListener& listener) override {
    core::check(data_.options.mode == Mode::training, "only a training plan has gradients");
    for (NodeData& node : nodes_) {
      const bool is_given = ends_at_boundary() && &node == &nodes_.back();
      if (!is_given) std::ranges::fill(node.dy.values, 0.0);
    }
    std::size_t filled = 0;  // leading gradients that are final
    // All nodes but the first, which is the source.
    for (std::size_t id = nodes_.size(); id-- > 1;) {
      const graph::Node& node = graph_.nodes()[id];
      node.operation.visit([&]<class Kind>(const Kind& operation) {
        if constexpr (!graph::is_source<Kind>) reference::backward(operation, nodes_[id], data_);
      });
      store_gradients(node);
      for (const std::size_t index : node.parameters) {
        const graph::Parameter& parameter = graph_.parameters()[index];
        filled = std::max(filled, parameter.offset + parameter.elements);
      }
      core::report_progress(data_.options.progress);
      listener.gradients_ready(id > 1 ? filled : graph_.parameter_elements());
    }
  }

  void set_boundary_input(std::span<const float> values) override {
    core::check(!graph_.boundary_inputs().empty(), "the graph has a boundary input");
    copy_values(values, std::span(nodes_.front().y.values));
  }

  void boundary_output(std::span<float> values) const override {
    core::check(ends_at_boundary(), "the graph has a boundary output");
    copy_values(std::span(nodes_.back().y.values), values);
  }

  void set_output_gradient(std::span<const float> values) override {
    core::check(ends_at_boundary(), "the graph has a boundary output");
    copy_values(values, std::span(nodes_.back().dy.values));
  }

  void input_gradient(std::span<float> values) const override {
    core::check(!graph_.boundary_inputs().empty(), "the graph has a boundary input");
    copy_values(std::span(nodes_.front().dy.values), values);
  }

  BatchResult result() const override { return data_.result; }
  MemoryUse memory() const override { return memory_; }
  std::vector<OperationChoice> choices() const override {
    return choices_of(graph_, data_.options.mode);
  }

 private:
  bool ends_at_boundary() const { return !graph_.boundary_outputs().empty(); }
  NodeData& data_of(graph::NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }

  NodeData make_data(const graph::Node& node) {
    const bool training = data_.options.mode == Mode::training;
    NodeData data;
    for (const graph::NodeId input : node.inputs) {
      data.inputs.push_back(&data_of(input).y);
      const bool needs_gradient = training && !graph_.node(input).operation.is<graph::Input>();
      data.input_gradients.push_back(needs_gradient ? &data_of(input).dy : nullptr);
    }
    data.y = Tensor(data_.options.batch, node.output);
    if (training && !node.operation.is<graph::Input>())
      data.dy = Tensor(data_.options.batch, node.output);
    data.weight = parameter(node, 0, parameters_);
    data.bias = parameter(node, 1, parameters_);
    if (training) {
      data.dweight = parameter(node, 0, gradients_);
      data.dbias = parameter(node, 1, gradients_);
    }
    data.running = running(node);
    return data;
  }

  /// Returns parameter `index` of the node (0 weight, 1 bias) in a flat buffer; empty if the node
  /// has no such parameter.
  std::span<double> parameter(const graph::Node& node, std::size_t index,
                              std::vector<double>& flat) const {
    if (index >= node.parameters.size()) return {};
    const graph::Parameter& parameter = graph_.parameters()[node.parameters[index]];
    return std::span(flat).subspan(parameter.offset, parameter.elements);
  }

  RunningStatistics running(const graph::Node& node) {
    if (node.statistics.empty()) return {};
    const auto view = [&](std::size_t index) {
      const graph::Statistic& statistic = graph_.statistics()[node.statistics[index]];
      return state_.statistics.as<float>().subspan(statistic.offset, statistic.elements);
    };
    return {.mean = view(0), .variance = view(1)};
  }

  void store_gradients(const graph::Node& node) {
    for (const std::size_t index : node.parameters) {
      const graph::Parameter& parameter = graph_.parameters()[index];
      std::ranges::copy(std::span(gradients_).subspan(parameter.offset, parameter.elements),
                        state_.gradients.as<float>().subspan(parameter.offset).begin());
    }
  }

  graph::Graph graph_;  // a copy, because the plan may outlive the original
  MemoryUse memory_;
  std::vector<double> parameters_;  // in the layout of the graph, as in the state
  std::vector<double> gradients_;   // in the same layout; empty in inference
  std::vector<NodeData> nodes_;     // by node; refer to one another and to the buffers above
  PlanData data_;
  std::vector<float> logits_;
};

}  // namespace

ModelState ReferenceBackend::make_state(const graph::Graph& graph, optim::Kind optimiser,
                                        core::Buffer gradients) const {
  const std::size_t parameter_bytes = sizeof(float) * graph.parameter_elements();
  return {.parameters = core::Buffer(parameter_bytes),
          .gradients = std::move(gradients),
          .momentum = core::Buffer(parameter_bytes),
          .statistics = core::Buffer(sizeof(float) * graph.statistic_elements()),
          .second_moment = core::Buffer(optimiser == optim::Kind::adamw ? parameter_bytes : 0)};
}

std::unique_ptr<Plan> ReferenceBackend::compile(const graph::Graph& graph, ModelState& state,
                                                const PlanOptions& options) const {
  core::check(options.batch > 0, "a plan has a batch");
  PlanOptions watched = options;
  watched.progress = progress_;
  const MemoryUse needed = memory(graph, options);
  try {
    return std::make_unique<ReferencePlan>(graph, state, watched, needed);
  } catch (const std::bad_alloc&) {
    const auto bytes = static_cast<double>(needed.plan());
    core::fail(core::ExitStatus::out_of_memory,
               fmt::format("no memory left for a plan of {} (batch {}); use a smaller batch",
                           core::format_bytes(bytes), options.batch));
  }
}

MemoryUse ReferenceBackend::memory(const graph::Graph& graph, const PlanOptions& options) const {
  const bool training = options.mode == Mode::training;
  const auto batch = static_cast<std::size_t>(options.batch);
  MemoryUse use;
  use.state = options.parameter_bytes(graph.parameter_elements()) +
              sizeof(float) * (graph.parameter_elements() + graph.statistic_elements());
  use.weights = sizeof(double) * graph.parameter_elements() * (training ? 2 : 1);
  use.workspace = batch * sizeof(std::int32_t) + sizeof(float) * logit_count(graph, options);
  for (const graph::Node& node : graph.nodes()) {
    const std::size_t elements = batch * node.output.elements();
    const bool has_gradient = training && !node.operation.is<graph::Input>();
    use.activations += sizeof(double) * elements * (has_gradient ? 2 : 1);
    // The positions of the maxima. The other operations save few values.
    if (node.operation.is<graph::MaxPool>()) use.workspace += sizeof(double) * elements;
  }
  return use;
}

std::vector<OperationChoice> ReferenceBackend::choices(const graph::Graph& graph,
                                                       const PlanOptions& options) const {
  return choices_of(graph, options.mode);
}

}  // namespace lockstep::backend::reference
