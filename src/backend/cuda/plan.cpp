// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "dnn/dnn_graph.hpp"
#include "launch.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "step_executor.hpp"

namespace lockstep::backend::cuda {

using core::check;
using core::DataType;
using core::device_buffer;

namespace {

/// Initial dynamic loss scale. The gradients of this network are initially below 65504 / 65536, and
/// a scale that is too large costs one skipped step per halving.
constexpr float first_loss_scale = 65536;

constexpr int ampere = 80;

/// Converts gradients to the flat buffer before it notifies the next listener. It does so in
/// portions of at least `portion` elements (0: all together), because each conversion is a kernel
/// launch.
class FlushingListener final : public core::GradientListener {
 public:
  FlushingListener(core::GradientListener& next, const NativeCopies& gradients, cudaStream_t stream,
                   std::size_t portion, std::size_t all)
      : next_(next), gradients_(gradients), stream_(stream), portion_(portion), all_(all) {}

  void gradients_ready(std::size_t elements) override {
    const bool is_enough = portion_ > 0 && elements - flushed_ >= portion_;
    if (is_enough || elements == all_) {
      gradients_.flush(stream_, flushed_, elements);
      flushed_ = elements;
    }
    next_.gradients_ready(flushed_);
  }

 private:
  core::GradientListener& next_;
  const NativeCopies& gradients_;
  cudaStream_t stream_;
  std::size_t portion_, all_, flushed_ = 0;
};

/// Returns the shape of the images that are uploaded; empty for a stage that does not begin with
/// them.
core::ImageShape image_of(const graph::Graph& graph) {
  return graph.boundary_inputs().empty() ? graph.image() : core::ImageShape{};
}

std::vector<std::int64_t> multiples(std::size_t portion, std::size_t below) {
  std::vector<std::int64_t> all;
  for (std::size_t at = portion; portion > 0 && at < below; at += portion)
    all.push_back(static_cast<std::int64_t>(at));
  return all;
}

std::size_t plain_bytes(const FeatureMap& map) {
  return static_cast<std::size_t>(map.images * map.shape.elements()) * sizeof(float);
}

void check_size(std::span<const float> values, const FeatureMap& map) {
  core::check(values.size_bytes() == plain_bytes(map),
              "a boundary value has the size of its feature map");
}

}  // namespace

DataType element_type(core::Precision precision, const DeviceInfo& device) {
  const bool is_new = precision == core::Precision::bf16 || precision == core::Precision::tf32;
  if (!is_new || device.compute_capability >= ampere) return activation_type(precision);
  core::fail(core::ExitStatus::usage,
             fmt::format("--precision {} needs a GPU of compute capability 8.0 or more, and the {} "
                         "has {}; use fp16 or fp32",
                         core::name(precision), device.name, device.capability()));
}

CudaOperations::CudaOperations(const graph::Graph& graph, const PlanOptions& options,
                               DnnPlanner& planner)
    : graph_(graph),
      context_{.graph = &graph_,
               .options = options,
               .element = element_type(options.precision, planner.target().info()),
               .target = &planner.target(),
               .planner = &planner} {}

FeatureMap CudaOperations::image_map(core::ImageShape shape) const {
  shape.channels = padded_image_channels(shape.channels, context_.element);
  return feature_map(shape);
}

FeatureMap CudaOperations::feature_map(core::ImageShape shape) const {
  return {context_.options.batch, shape, context_.element, MapLayout::channels_last, nullptr};
}

std::unique_ptr<Operation> CudaOperations::make(const Step& step, Operands operands) {
  return build_operation(context_, step, std::move(operands));
}

void CudaOperations::add_into(const FeatureMap& from, const FeatureMap& to) {
  cuda::add_into(context_, from, to);
}

std::size_t boundary_bytes(const Blueprint& blueprint, const graph::Graph& graph) {
  std::size_t bytes = 0;
  if (!graph.boundary_inputs().empty()) bytes = plain_bytes(blueprint.boundary_input());
  if (!graph.boundary_outputs().empty())
    bytes = std::max(bytes, plain_bytes(blueprint.boundary_output()));
  return bytes;
}

MemoryUse memory_of(const Blueprint& blueprint, const CudaOperations& operations) {
  const graph::Graph& graph = operations.graph();
  const Context& context = operations.context();
  const std::size_t flat = graph.parameter_elements();
  MemoryUse use{.state = context.options.parameter_bytes(flat) +
                         flat * core::size_of(context.options.gradient_type) +
                         graph.statistic_elements() * sizeof(float),
                .activations = blueprint.arena_bytes(),
                .weights = NativeCopies::bytes(
                    graph, context.element, &kernels::NativeParameter::weight, DataType::float32),
                .workspace = workspace_bytes(blueprint, operations) + context.fusion_plan.bytes() +
                             StepUpload::device_bytes(context.options.batch, image_of(graph))};
  if (context.is_training())
    use.weights += NativeCopies::bytes(graph, context.element, &kernels::NativeParameter::gradient,
                                       context.options.gradient_type);
  return use;
}

CudaPlan::CudaPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options,
                   DnnPlanner& planner)
    : operations_(graph, options, planner),
      blueprint_(operations_),
      host_(state),
      state_(CudaState::of(state)),
      stream_(planner.target().stream()),
      timeline_(stream_),
      arena_(device_buffer(blueprint_.arena_bytes(), "feature maps")),
      workspace_(device_buffer(workspace_bytes(blueprint_, operations_), "workspace")),
      scalars_(device_buffer(sizeof(Scalars), "a step's numbers")),
      vectors_(device_buffer(operations_.context().fusion_plan.bytes(), "batch norm's sums")),
      weights_(state_.native_weights(operations_.context().element)),
      upload_(operations_.context(), image_of(graph)) {
  place_parameters();
  Context& context = operations_.context();
  context.fusion_plan.place(vectors_.data());
  context.step = &upload_.current();
  if (context.uses_side_stream()) {
    side_stream_ = std::make_unique<const SideStream>(planner.target());
    context.side_stream = side_stream_.get();
  }
  blueprint_.bind(arena_.data(), workspace_.data(), state);
}

void CudaPlan::place_parameters() {
  Context& context = operations_.context();
  const graph::Graph& graph = operations_.graph();
  DeviceParameters& parameters = context.parameters;
  if (context.is_training()) place_gradients();
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    parameters.places.push_back({.weight = weights_->native(i).data,
                                 .gradient = gradients_ ? gradients_->native(i).data : nullptr});
  }
  parameters.statistics = state_.statistics();
  parameters.result = &scalars()->result;
  if (!has_loss_scale() || !context.is_training()) return;
  parameters.loss_scale = &scalars()->loss_scale.scale;
  restart_loss_scale();
}

/// Allocates the native gradients and determines which gradients the update reads.
void CudaPlan::place_gradients() {
  const PlanOptions& options = operations_.options();
  gradients_ = std::make_shared<const NativeCopies>(
      operations_.graph(), operations_.context().element, &kernels::NativeParameter::gradient,
      state_.gradients(), options.gradient_type);
  const std::weak_ptr<const NativeCopies> none;
  state_.set_gradients(options.gradient_type, reduces_gradients() ? none : gradients_);
  std::vector<kernels::NativeParameter> parameters = weights_->parameters();
  const float vector_decay = options.vector_decay == optim::VectorDecay::on ? 1 : 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].gradient = reduces_gradients() ? gradients_->flat(i) : gradients_->native(i);
    if (operations_.graph().parameters()[i].is_vector()) parameters[i].decay = vector_decay;
  }
  segments_ = Segments(parameters, multiples(options.gradient_portion, state_.elements()));
  if (options.optimiser == optim::Kind::lars)
    local_rates_ = LocalRates(operations_.graph(), segments_);
  check(options.optimiser != optim::Kind::adamw || state_.second_moment() != nullptr,
        "a state has the buffers of the optimiser");
}

void CudaPlan::restart_loss_scale() {
  if (has_loss_scale()) set_loss_scale({.scale = first_loss_scale});
}

/// With AdamW the number of skipped steps is saved, also of a constant loss scale.
bool CudaPlan::has_saved_loss_scale() const {
  const PlanOptions& options = operations_.options();
  return has_loss_scale() && options.mode == Mode::training &&
         (options.loss_scale == 0 || options.optimiser == optim::Kind::adamw);
}

LossScale CudaPlan::loss_scale() const {
  kernels::LossScale state;
  fetch(&state, &scalars()->loss_scale, sizeof state, "copying the loss scale");
  return LossScale{.scale = state.scale, .good_steps = state.good_steps, .skipped = state.skipped};
}

void CudaPlan::set_loss_scale(const LossScale& scale) {
  const double constant = operations_.options().loss_scale;
  const kernels::LossScale state{.scale = constant > 0 ? static_cast<float>(constant) : scale.scale,
                                 .good_steps = scale.good_steps,
                                 .skipped = scale.skipped,
                                 .dynamic = constant > 0 ? 0 : 1};
  core::copy_to_device(&scalars()->loss_scale, std::as_bytes(std::span(&state, 1)),
                       "setting the loss scale");
}

void CudaPlan::upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) {
  const PlanOptions& options = operations_.options();
  const auto batch = static_cast<std::size_t>(options.batch);
  const bool is_training = options.mode == Mode::training;
  check(labels.size() <= batch && (!is_training || labels.size() == batch),
        "a batch fits its plan");
  if (!begins_with_images()) images = {};
  check(images.size() ==
            labels.size() * static_cast<std::size_t>(image_of(operations_.graph()).elements()),
        "an image per label");
  check_labels(labels);
  upload_.run(step_inputs(), images, labels);
}

void CudaPlan::check_labels(std::span<const std::int32_t> labels) const {
  if (!ends_with_loss()) return;
  const std::int64_t classes = operations_.graph().classes();
  for (const std::int32_t label : labels)
    check(label >= 0 && label < classes, "a label is one of the classes");
}

void CudaPlan::load_dataset(std::span<const std::int32_t> labels, const ImageReader& read) {
  check_labels(labels);
  upload_.load_dataset(labels, read);
}

void CudaPlan::upload_samples(std::span<const std::int32_t> samples,
                              std::span<const core::CropFlip> crops) {
  check(std::ssize(samples) == batch() && crops.size() == samples.size(),
        "a batch of samples fits its plan");
  upload_.run_samples(step_inputs(), samples, crops);
}

/// Returns the inputs of the next step, and counts it in training.
StepInputs CudaPlan::step_inputs() {
  const auto step = static_cast<std::uint32_t>(host_.batches_tracked);
  if (operations_.context().is_training()) ++host_.batches_tracked;
  return {.update = coefficients_, .step = step};
}

void CudaPlan::upload_anything() {
  const graph::Graph& graph = operations_.graph();
  const auto images = static_cast<std::size_t>(batch());
  core::Random random(1, core::RandomStream::test);
  const auto numbers_below = [&](std::size_t bound) {
    std::vector<std::int32_t> numbers(images);
    for (auto& number : numbers)
      number = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(bound)));
    return numbers;
  };
  if (upload_.dataset_size() > 0) {
    upload_samples(numbers_below(upload_.dataset_size()), std::vector<core::CropFlip>(images));
  } else {
    std::vector<std::uint8_t> pixels(images * static_cast<std::size_t>(graph.image().elements()));
    for (auto& byte : pixels) byte = static_cast<std::uint8_t>(random.below(256));
    upload(pixels, numbers_below(static_cast<std::size_t>(graph.classes())));
  }
  --host_.batches_tracked;
}

void CudaPlan::forward() {
  if (begins_with_images()) upload_.normalise(blueprint_.images());
  // Some cuDNN engines accumulate into the sums.
  if (const std::size_t bytes = vectors_.bytes(); bytes > 0)
    check_cuda(cudaMemsetAsync(vectors_.data(), 0, bytes, stream_), "clearing sums");
  blueprint_.forward();
}

void CudaPlan::fetch(void* to, const void* from, std::size_t bytes, std::string_view what) const {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), what);
  check_cuda(cudaStreamSynchronize(stream_), what);
}

BatchResult CudaPlan::result() const {
  if (!ends_with_loss()) return {};
  kernels::DeviceResult result;
  fetch(&result, device_result(), sizeof result, "copying a result");
  return {
      .loss_sum = result.loss_sum, .correct = result.correct, .images = upload_.current().images};
}

std::span<const float> CudaPlan::logits() const {
  const FeatureMap& map = blueprint_.logits();
  logits_.resize(map.elements());
  fetch(logits_.data(), map.data, map.bytes(), "copying logits");
  return logits_;
}

void CudaPlan::backward(core::GradientListener& listener) {
  if (!reduces_gradients()) {
    blueprint_.backward(listener);
    return;
  }
  FlushingListener flushing(listener, *gradients_, stream_, operations_.options().gradient_portion,
                            state_.elements());
  blueprint_.backward(flushing);
}

void CudaPlan::write_values(std::span<const float> values, const FeatureMap& map) {
  check_size(values, map);
  check_cuda(cudaMemcpyAsync(workspace_.data(), values.data(), values.size_bytes(),
                             cudaMemcpyHostToDevice, stream_),
             "copying a boundary value");
  check_cuda(cudaStreamSynchronize(stream_), "copying a boundary value");
  unflatten(stream_, workspace_.as<float>().data(), map);
}

void CudaPlan::read_values(const FeatureMap& map, std::span<float> values) const {
  check_size(values, map);
  flatten(stream_, map, workspace_.as<float>().data());
  fetch(values.data(), workspace_.data(), values.size_bytes(), "copying a boundary value");
}

void CudaPlan::set_boundary_input(std::span<const float> values) {
  write_values(values, blueprint_.boundary_input());
}

void CudaPlan::boundary_output(std::span<float> values) const {
  read_values(blueprint_.boundary_output(), values);
}

void CudaPlan::set_output_gradient(std::span<const float> values) {
  write_values(values, blueprint_.boundary_output_gradient());
}

void CudaPlan::input_gradient(std::span<float> values) const {
  read_values(blueprint_.boundary_input_gradient(), values);
}

std::unique_ptr<StepExecutor> CudaPlan::make_step_executor(std::unique_ptr<StepWork> work) {
  return std::make_unique<CudaStepExecutor>(*this, timeline_, stream_, std::move(work));
}

std::unique_ptr<StepExecutor> CudaPlan::make_eager_executor(std::unique_ptr<StepWork> work) {
  return std::make_unique<CudaEagerExecutor>(timeline_, stream_, std::move(work));
}

void CudaPlan::synchronise() const {
  check_cuda(cudaStreamSynchronize(stream_), "the work of a plan");
}

}  // namespace lockstep::backend::cuda
