// SPDX-License-Identifier: BSD-3-Clause
#include "operation_graph.hpp"

// The headers of cudnn-frontend take a minute to compile, so only this file includes them.
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

namespace fe = cudnn_frontend;

constexpr std::size_t most_ports = 16;

std::optional<std::string> refusal(fe::error_t status) {
  if (status.is_good()) return std::nullopt;
  return refusal_of(status.get_message());
}

/// Returns the properties of a target GPU that is not present. Throws `Error` (internal) if this
/// version of cuDNN cannot read its description.
std::shared_ptr<const fe::DeviceProperties> properties_of(const Target& target) {
  auto properties = std::make_shared<fe::DeviceProperties>();
  const auto& json = target.description();
  if (const auto reason = refusal(properties->deserialize({json.begin(), json.end()})))
    core::fail(core::ExitStatus::internal,
               "cuDNN cannot read the description of the GPU: " + *reason);
  return properties;
}

fe::DataType_t convert(core::DataType type) {
  switch (type) {
    case core::DataType::float32: return fe::DataType_t::FLOAT;
    case core::DataType::bfloat16: return fe::DataType_t::BFLOAT16;
    case core::DataType::float16: return fe::DataType_t::HALF;
  }
  return fe::DataType_t::NOT_SET;
}

fe::PointwiseMode_t convert(Pointwise operation) {
  switch (operation) {
    case Pointwise::relu: return fe::PointwiseMode_t::RELU_FWD;
    case Pointwise::relu_backward: return fe::PointwiseMode_t::RELU_BWD;
    case Pointwise::add: return fe::PointwiseMode_t::ADD;
    case Pointwise::multiply: return fe::PointwiseMode_t::MUL;
    case Pointwise::is_greater: return fe::PointwiseMode_t::CMP_GT;
  }
  return fe::PointwiseMode_t::NOT_SET;
}

std::vector<std::int64_t> dimensions(const Extents& extents) {
  return {extents.n, extents.c, extents.h, extents.w};
}

std::vector<std::int64_t> strides(const Extents& extents) {
  return {extents.c * extents.h * extents.w, 1, extents.c * extents.w, extents.c};
}

template <class Attributes>
Attributes with_window(Window window) {
  Attributes attributes;
  attributes.set_padding({window.padding, window.padding})
      .set_stride({window.stride, window.stride})
      .set_dilation({1, 1});
  return attributes;
}

/// Gives access to protected members of the frontend's graph: the notes of engines, and the
/// execution plans that are no longer needed.
class OpenGraph : public fe::graph::Graph {
 public:
  fe::graph::Execution_plan_list& list() { return plans; }
};

bool holds(const auto& notes, auto note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

}  // namespace

std::string refusal_of(const std::string& message) {
  // cudnn-frontend reports a status of cuDNN or CUDA only as text (graph_helpers.h).
  constexpr std::array<std::string_view, 3> memory_is_full{
      "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
      "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "failed with out of memory"};
  // The messages have many lines; the first one that contains "Reason" names the failed check.
  std::string text = message;
  if (const auto at = text.find("Reason: "); at != std::string::npos) text = text.substr(at + 8);
  text = text.substr(0, text.find('\n'));
  if (text.empty()) text = "cuDNN gives no reason";
  if (std::ranges::any_of(memory_is_full, [&](std::string_view status) {
        return message.find(status) != std::string::npos;
      })) {
    static_cast<void>(cudaGetLastError());  // clears the error, which the next launch would report
    core::fail(core::ExitStatus::out_of_memory,
               "cuDNN could not allocate memory, use a smaller --batch-per-rank: " + text);
  }
  return text;
}

struct OperationGraph::Parts {
  explicit Parts(const Target& for_target) : target(for_target) {}

  void add_port(std::int64_t uid, std::int64_t elements, core::DataType type, PortKind kind) {
    const auto at =
        std::lower_bound(ports.begin(), ports.end(), uid,
                         [](const Port& port, std::int64_t id) { return port.uid < id; });
    core::check(at == ports.end() || at->uid != uid, "each tensor of a graph has its own uid");
    ports.insert(at, {uid, static_cast<std::size_t>(elements) * core::size_of(type), type, kind});
    core::check(ports.size() <= most_ports, "a graph of ours has few inputs and outputs");
  }

  const Target& target;
  OpenGraph graph;
  std::vector<Tensor> outputs;
  std::vector<Port> ports;
  std::string restored_name;  ///< name of the only engine of a restored graph
};

OperationGraph::OperationGraph(const Target& target, core::DataType virtual_type)
    : parts_(std::make_unique<Parts>(target)) {
  parts_->graph.set_intermediate_data_type(convert(virtual_type))
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_io_data_type(convert(virtual_type));
  if (!target.is_present()) parts_->graph.set_device_properties(properties_of(target));
}

OperationGraph::~OperationGraph() = default;

OperationGraph::Tensor OperationGraph::input(std::int64_t uid, const Extents& extents,
                                             core::DataType type) {
  parts_->add_port(uid, extents.elements(), type, PortKind::input);
  return parts_->graph.tensor(fe::graph::Tensor_attributes()
                                  .set_name(fmt::format("t{}", uid))
                                  .set_uid(uid)
                                  .set_dim(dimensions(extents))
                                  .set_stride(strides(extents))
                                  .set_data_type(convert(type)));
}

OperationGraph::Tensor OperationGraph::constant(float value) { return parts_->graph.tensor(value); }

OperationGraph::Tensor OperationGraph::convolution(Tensor x, Tensor weights, Window window) {
  return parts_->graph.conv_fprop(x, weights,
                                  with_window<fe::graph::Conv_fprop_attributes>(window));
}

OperationGraph::Tensor OperationGraph::convolution_backward_data(Tensor dy, Tensor weights,
                                                                 const Extents& x, Window window) {
  auto dx =
      parts_->graph.conv_dgrad(dy, weights, with_window<fe::graph::Conv_dgrad_attributes>(window));
  // A stride > 1 leaves the size of dx ambiguous.
  dx->set_dim(dimensions(x)).set_stride(strides(x));
  return dx;
}

OperationGraph::Tensor OperationGraph::convolution_backward_weights(Tensor dy, Tensor x,
                                                                    const Extents& weights,
                                                                    Window window) {
  auto dw = parts_->graph.conv_wgrad(dy, x, with_window<fe::graph::Conv_wgrad_attributes>(window));
  dw->set_dim(dimensions(weights)).set_stride(strides(weights));
  return dw;
}

OperationGraph::Tensor OperationGraph::pointwise(Pointwise operation, Tensor a) {
  return parts_->graph.pointwise(a, fe::graph::Pointwise_attributes().set_mode(convert(operation)));
}

OperationGraph::Tensor OperationGraph::pointwise(Pointwise operation, Tensor a, Tensor b) {
  auto result =
      parts_->graph.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(convert(operation)));
  if (operation == Pointwise::is_greater) result->set_data_type(fe::DataType_t::BOOLEAN);
  return result;
}

OperationGraph::BatchNorm OperationGraph::batch_norm(Tensor x, Tensor scale, Tensor bias,
                                                     Tensor running_mean, Tensor running_variance,
                                                     float epsilon, float momentum) {
  auto epsilon_tensor = parts_->graph.tensor(epsilon);
  auto momentum_tensor = parts_->graph.tensor(momentum);
  const auto [y, mean, deviation, next_mean, next_variance] = parts_->graph.batchnorm(
      x, scale, bias,
      fe::graph::Batchnorm_attributes()
          .set_epsilon(epsilon_tensor)
          .set_previous_running_stats(running_mean, running_variance, momentum_tensor));
  return {y, mean, deviation, next_mean, next_variance};
}

OperationGraph::Tensor OperationGraph::batch_norm_apply(Tensor x, Tensor mean,
                                                        Tensor inverse_deviation, Tensor scale,
                                                        Tensor bias) {
  return parts_->graph.batchnorm_inference(x, mean, inverse_deviation, scale, bias,
                                           fe::graph::Batchnorm_inference_attributes());
}

OperationGraph::ChannelSums OperationGraph::channel_sums(Tensor x) {
  const auto [sum, squares] = parts_->graph.genstats(x, fe::graph::Genstats_attributes());
  return {sum, squares};
}

OperationGraph::Tensor OperationGraph::channel_sum(Tensor x, std::int64_t channels) {
  auto sum = parts_->graph.reduction(
      x, fe::graph::Reduction_attributes().set_mode(fe::ReductionMode_t::ADD));
  const Extents vector{1, channels, 1, 1};
  sum->set_dim(dimensions(vector)).set_stride(strides(vector));
  return sum;
}

OperationGraph::BatchNormBackward OperationGraph::batch_norm_backward(Tensor dy, Tensor x,
                                                                      Tensor scale, Tensor mean,
                                                                      Tensor inverse_deviation) {
  const auto [dx, dscale, dbias] = parts_->graph.batchnorm_backward(
      dy, x, scale,
      fe::graph::Batchnorm_backward_attributes().set_saved_mean_and_inv_variance(
          mean, inverse_deviation));
  return {dx, dscale, dbias};
}

void OperationGraph::output(const Tensor& tensor, std::int64_t uid, core::DataType type,
                            PortKind kind) {
  parts_->add_port(uid, 0, type, kind);  // `seal` sets the size
  tensor->set_output(true).set_uid(uid).set_data_type(convert(type));
  parts_->outputs.push_back(tensor);
}

std::vector<OperationGraph::Port> OperationGraph::ports() const { return parts_->ports; }

void OperationGraph::limit_multiprocessors(int count) { parts_->graph.set_sm_count(count); }

std::optional<std::string> OperationGraph::seal() {
  if (auto reason = refusal(parts_->graph.validate())) return reason;
  for (Port& port : parts_->ports)
    for (const Tensor& tensor : parts_->outputs)
      if (tensor->get_uid() == port.uid)
        port.bytes = static_cast<std::size_t>(tensor->get_volume()) * core::size_of(port.type);
  if (parts_->target.is_present())
    return refusal(parts_->graph.build_operation_graph(parts_->target.handle()));
  return refusal(parts_->graph.build_operation_graph());
}

std::optional<std::string> OperationGraph::find_engines(Heuristics heuristics) {
  const auto mode =
      heuristics == Heuristics::best_first ? fe::HeurMode_t::A : fe::HeurMode_t::FALLBACK;
  return refusal(parts_->graph.create_execution_plans({mode}));
}

std::size_t OperationGraph::engines() const {
  return static_cast<std::size_t>(parts_->graph.get_execution_plan_count());
}

EngineFacts OperationGraph::facts(std::size_t engine) const {
  EngineFacts facts;
  if (!parts_->restored_name.empty()) return {.name = parts_->restored_name};
  static_cast<void>(
      parts_->graph.get_plan_name_at_index(static_cast<std::int64_t>(engine), facts.name));
  const auto& numeric = parts_->graph.list().numeric_notes.at(engine);
  facts.tensor_core = holds(numeric, fe::NumericalNote_t::TENSOR_CORE);
  facts.down_converts = holds(numeric, fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
  facts.narrow_sums = holds(numeric, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION);
  facts.nondeterministic = holds(numeric, fe::NumericalNote_t::NONDETERMINISTIC);
  facts.runtime_compiled = holds(parts_->graph.list().behavior_notes.at(engine),
                                 fe::BehaviorNote_t::RUNTIME_COMPILATION);
  return facts;
}

std::optional<std::string> OperationGraph::build(std::size_t engine, std::size_t workspace_limit) {
  parts_->graph.list().set_max_workspace_allowed(static_cast<std::int64_t>(
      std::min<std::size_t>(workspace_limit, std::numeric_limits<std::int64_t>::max())));
  return refusal(parts_->graph.build_plan_at_index(static_cast<std::int64_t>(engine)));
}

std::size_t OperationGraph::workspace_bytes(std::size_t engine) const {
  return static_cast<std::size_t>(
      parts_->graph.get_workspace_size_plan_at_index(static_cast<std::int64_t>(engine)));
}

void OperationGraph::keep_only(std::size_t engine) {
  auto& plans = parts_->graph.list().execution_plans;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (i != engine) plans[i] = nullptr;
}

std::vector<std::uint8_t> OperationGraph::serialise(std::size_t engine) const {
  auto& plans = parts_->graph.list();
  const auto before = std::exchange(plans.candidate, static_cast<std::int64_t>(engine));
  constexpr bool with_structure = false;
  std::vector<std::uint8_t> bytes;
  if (parts_->graph.serialize(bytes, with_structure).is_bad()) bytes.clear();
  plans.candidate = before;
  return bytes;
}

std::unique_ptr<OperationGraph> OperationGraph::restored(std::span<const std::uint8_t> bytes,
                                                         const std::string& name) const {
  const Target& target = parts_->target;
  auto copy = std::make_unique<OperationGraph>(target, core::DataType::float32);
  copy->parts_->ports = parts_->ports;
  copy->parts_->restored_name = name;
  const std::vector<std::uint8_t> data(bytes.begin(), bytes.end());
  constexpr bool must_be_built = true, runs_at_once = false;
  try {
    const auto status =
        target.is_present()
            ? copy->parts_->graph.deserialize(target.handle(), data, must_be_built, runs_at_once)
            : copy->parts_->graph.deserialize(data, must_be_built);
    if (status.is_bad()) return nullptr;
  } catch (const std::exception&) {  // thrown by the JSON library: the bytes can be anything
    return nullptr;
  }
  return copy;
}

std::optional<std::string> OperationGraph::run(std::size_t engine,
                                               std::span<const Binding> bindings,
                                               void* workspace) const {
  core::check(parts_->target.is_present(), "a graph planned for a described GPU cannot run");
  const auto& ports = parts_->ports;
  core::check(bindings.size() == ports.size(), "every tensor of the graph is bound once");
  std::array<void*, most_ports> pointers{};  // in ascending order of uid, as the frontend requires
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto found = std::find_if(bindings.begin(), bindings.end(), [&](const Binding& binding) {
      return binding.uid == ports[i].uid;
    });
    core::check(found != bindings.end() && found->data != nullptr,
                "every tensor of the graph is bound");
    pointers[i] = found->data;
  }
  return refusal(parts_->graph.execute_plan_at_index(parts_->target.handle(), pointers.data(),
                                                     static_cast<int>(ports.size()), workspace,
                                                     static_cast<std::int64_t>(engine)));
}

}  // namespace lockstep::backend::cuda
