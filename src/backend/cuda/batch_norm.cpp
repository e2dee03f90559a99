// Batch norm with the addition and the ReLU behind it, forward and backward: by cuDNN in one node
// where it has one, else by kernels of our own in two passes each (kernels/batch_norm.hpp). Ours
// also serve Turing, batch norm over all replicas, and runs that must give the same bits every
// time. In inference the running statistics are applied by our kernel.

#include <algorithm>
#include <variant>

#include "batch_norm_graphs.hpp"
#include "kernels/batch_norm_gradient.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

/// What both ways share: the node's sizes, parameters and maps.
class BatchNormBase : public Operation {
 public:
  BatchNormBase(const Context& context, const Step& step, Ports given)
      : Operation(std::move(given)),
        context_(context),
        id_(step.node),
        node_(context.graph->node(step.node)),
        operation_(std::get<graph::BatchNorm>(node_.operation)),
        has_relu_(step.with_relu),
        rows_(ports().output->images * ports().output->shape.pixels()),
        channels_(ports().output->shape.channels) {}

  std::size_t output_gradients_taken() const override { return 2; }

 protected:
  void bind_parameters() {
    const auto& places = context_.parameters->places;
    gamma_ = static_cast<float*>(places[node_.parameters[0]].weight);
    beta_ = static_cast<float*>(places[node_.parameters[1]].weight);
    gamma_gradient_ = static_cast<float*>(places[node_.parameters[0]].gradient);
    beta_gradient_ = static_cast<float*>(places[node_.parameters[1]].gradient);
    const auto statistic = [&](std::size_t i) {
      return context_.parameters->statistics +
             context_.graph->statistics()[node_.statistics[i]].offset;
    };
    running_mean_ = statistic(0);
    running_variance_ = statistic(1);
  }

  bool has_residual() const { return ports().inputs.size() > 1; }
  const FeatureMap* second_gradient() const {
    const auto& gradients = ports().output_gradients;
    return gradients.size() > 1 ? gradients[1] : nullptr;
  }
  /// Where the residual's gradient is wanted.
  const FeatureMap* residual_gradient() const {
    return has_residual() ? ports().input_gradients[1] : nullptr;
  }

  const Context& context_;
  graph::NodeId id_;
  const graph::Node& node_;
  const graph::BatchNorm& operation_;
  bool has_relu_;
  std::int64_t rows_, channels_;
  float* gamma_ = nullptr;
  float* beta_ = nullptr;
  float* gamma_gradient_ = nullptr;
  float* beta_gradient_ = nullptr;
  float* running_mean_ = nullptr;
  float* running_variance_ = nullptr;
};

/// Our own kernels.
template <class T>
class TwoPassBatchNorm final : public BatchNormBase {
 public:
  TwoPassBatchNorm(const Context& context, const Step& step, Ports given)
      : BatchNormBase(context, step, std::move(given)),
        slabs_(kernels::slab_count<T>(rows_, channels_)) {}

  BackwardNeeds backward_needs() const override {
    return {.inputs = true, .output = mask() == kernels::ReluMask::output};
  }

  /// Mean, 1 / deviation, scale, offset, and the totals (2 channels + 1).
  std::size_t kept_bytes() const override {
    return static_cast<std::size_t>(6 * channels_ + 1) * sizeof(float);
  }

  /// Partial sums; behind them the gradient's totals and coefficients.
  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(kernels::batch_norm_partial_size(slabs_, channels_) +
                                    5 * channels_) *
           sizeof(float);
  }

  void bind(const backend::Binding& binding) override {
    bind_parameters();
    auto* const kept = reinterpret_cast<float*>(binding.kept);
    mean_ = kept;
    inverse_deviation_ = kept + channels_;
    scale_ = kept + 2 * channels_;
    offset_ = kept + 3 * channels_;
    totals_ = kept + 4 * channels_;
    partial_ = reinterpret_cast<float*>(binding.scratch);
    behind_partial_ = partial_ + kernels::batch_norm_partial_size(slabs_, channels_);
  }

  void forward() override {
    if (context_.is_training()) {
      find_statistics();
    } else {
      launch(context_.stream(),
             kernels::BatchNormInferenceCoefficients{
                 running_mean_, running_variance_, coefficients(), channels_, operation_.epsilon});
    }
    launch(context_.stream(),
           kernels::BatchNormApply<T>{
               x(), has_residual() ? ports().inputs[1]->template as<T>() : nullptr,
               ports().output->template as<T>(), scale_, offset_, rows_, channels_,
               has_relu_ ? kernels::Activation::relu : kernels::Activation::none});
  }

  void backward() override {
    T* const masked =
        residual_gradient() != nullptr ? residual_gradient()->template as<T>() : nullptr;
    kernels::GradientMaps<T> maps{
        .x = x(),
        .dy = ports().output_gradients[0]->template as<T>(),
        .dy2 = second_gradient() != nullptr ? second_gradient()->template as<T>() : nullptr,
        .y = ports().output->template as<T>(),
        .mask = mask(),
        .scale = scale_,
        .offset = offset_};
    launch(context_.stream(),
           kernels::BatchNormGradientSums<T>{maps, masked, mean_, inverse_deviation_, partial_,
                                             rows_, channels_, slabs_});
    float* const totals = behind_partial_;
    float* const a = behind_partial_ + 2 * channels_;
    float* const b = a + channels_;
    float* const c = b + channels_;
    const kernels::BatchNormGradientTotals sums{partial_,        totals,    beta_gradient_,
                                                gamma_gradient_, channels_, slabs_};
    const kernels::BatchNormGradientCoefficients factors{
        totals, totals_ + 2 * channels_, gamma_, mean_, inverse_deviation_, a, b, c, channels_};
    if (core::StatisticsSum* const replicas = context_.options.batch_norm_sum) {
      launch(context_.stream(), sums);
      replicas->sum({totals, static_cast<std::size_t>(2 * channels_)});
      launch(context_.stream(), factors);
    } else {
      launch(context_.stream(), kernels::BatchNormGradientTotalsAndCoefficients{sums, factors});
    }
    if (ports().input_gradients[0] == nullptr) return;
    if (masked != nullptr) {
      maps.dy = masked;
      maps.dy2 = nullptr;
      maps.mask = kernels::ReluMask::none;
    }
    launch(context_.stream(),
           kernels::BatchNormInputGradient<T>{
               maps, a, b, c, ports().input_gradients[0]->template as<T>(), rows_, channels_});
  }

  std::vector<OperationChoice> choices() const override {
    return {{id_, "forward", "two passes"}, {id_, "backward", "two passes"}};
  }

 private:
  const T* x() const { return ports().inputs[0]->template as<T>(); }

  kernels::ReluMask mask() const {
    if (!has_relu_) return kernels::ReluMask::none;
    return has_residual() ? kernels::ReluMask::output : kernels::ReluMask::normalised;
  }

  kernels::BatchNormCoefficients coefficients() const {
    return {gamma_, beta_, mean_, inverse_deviation_, scale_, offset_};
  }

  void find_statistics() {
    core::StatisticsSum* const replicas = context_.options.batch_norm_sum;
    launch(context_.stream(), kernels::BatchNormSums<T>{x(), partial_, rows_, channels_, slabs_});
    // Replicas can add up sums about a value that they share.
    const kernels::BatchNormShift<T> shift{x(), replicas != nullptr ? running_mean_ : nullptr};
    const kernels::BatchNormTotals<T> totals{partial_, shift, totals_, rows_, channels_, slabs_};
    const kernels::BatchNormStatistics<T> statistics{
        totals_,           shift,     coefficients(),     running_mean_,
        running_variance_, channels_, operation_.epsilon, operation_.momentum};
    if (replicas == nullptr) {
      launch(context_.stream(), kernels::BatchNormTotalsAndStatistics<T>{totals, statistics});
      return;
    }
    launch(context_.stream(), totals);
    replicas->sum({totals_, static_cast<std::size_t>(2 * channels_ + 1)});
    launch(context_.stream(), statistics);
  }

  std::int64_t slabs_;
  float* mean_ = nullptr;
  float* inverse_deviation_ = nullptr;
  float* scale_ = nullptr;
  float* offset_ = nullptr;
  float* totals_ = nullptr;
  float* partial_ = nullptr;
  float* behind_partial_ = nullptr;
};

/// The graphs of one batch norm by cuDNN; both or none.
struct OneNodeGraphs {
  std::shared_ptr<const DnnGraph> forward, backward;
};

/// cuDNN's kernels: one for each pass.
class OneNodeBatchNorm final : public BatchNormBase {
 public:
  OneNodeBatchNorm(const Context& context, const Step& step, Ports given, OneNodeGraphs graphs)
      : BatchNormBase(context, step, std::move(given)), graphs_(std::move(graphs)) {}

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = has_relu_}; }

  std::size_t kept_bytes() const override {
    return static_cast<std::size_t>(2 * channels_) * sizeof(float);
  }
  std::size_t scratch_bytes() const override {
    return std::max(graphs_.forward->workspace_bytes(), graphs_.backward->workspace_bytes());
  }

  void bind(const backend::Binding& binding) override {
    bind_parameters();
    workspace_ = binding.scratch;
    auto* const mean = reinterpret_cast<float*>(binding.kept);
    float* const inverse_deviation = mean + channels_;
    namespace tensor = batch_norm_tensor;
    const FeatureMap& x = *ports().inputs[0];
    const FeatureMap& y = *ports().output;
    forward_ = {{tensor::x, x.data},
                {tensor::scale, gamma_},
                {tensor::bias, beta_},
                {tensor::running_mean, running_mean_},
                {tensor::running_variance, running_variance_},
                {tensor::y, y.data},
                {tensor::mean, mean},
                {tensor::inverse_deviation, inverse_deviation},
                {tensor::next_running_mean, running_mean_},
                {tensor::next_running_variance, running_variance_}};
    if (has_residual()) forward_.push_back({tensor::residual, ports().inputs[1]->data});
    backward_ = {{tensor::dy, ports().output_gradients[0]->data},
                 {tensor::x, x.data},
                 {tensor::scale, gamma_},
                 {tensor::mean, mean},
                 {tensor::inverse_deviation, inverse_deviation},
                 {tensor::dx, ports().input_gradients[0]->data},
                 {tensor::dscale, gamma_gradient_},
                 {tensor::dbias, beta_gradient_}};
    if (second_gradient() != nullptr)
      backward_.push_back({tensor::dy_more, second_gradient()->data});
    if (has_relu_) backward_.push_back({tensor::y, y.data});
    if (residual_gradient() != nullptr)
      backward_.push_back({tensor::masked_dy, residual_gradient()->data});
  }

  void forward() override { graphs_.forward->run(forward_, workspace_); }
  void backward() override { graphs_.backward->run(backward_, workspace_); }

  std::vector<OperationChoice> choices() const override {
    return {{id_, "forward", "one node, " + graphs_.forward->engine()},
            {id_, "backward", "one node, " + graphs_.backward->engine()}};
  }

 private:
  OneNodeGraphs graphs_;
  std::byte* workspace_ = nullptr;
  std::vector<Binding> forward_, backward_;
};

/// Null where cuDNN has not both graphs for this one, or it may not take them.
OneNodeGraphs plan_one_node(const Context& context, const Step& step, const Ports& ports) {
  const PlanOptions& options = context.options;
  const bool has_residual = ports.inputs.size() > 1;
  if (!context.is_training() || options.batch_norm_sum != nullptr) return {};
  if (ports.input_gradients[0] == nullptr || ports.output_gradients.size() > 2) return {};
  if (has_residual && !step.with_relu) return {};
  const auto& operation = std::get<graph::BatchNorm>(context.graph->node(step.node).operation);
  const FeatureMap& y = *ports.output;
  const BatchNormShape shape{y.images, y.shape.channels, y.shape.height, y.shape.width};
  const BatchNormTail tail = has_residual     ? BatchNormTail::add_relu
                             : step.with_relu ? BatchNormTail::relu
                                              : BatchNormTail::none;
  const PlannedGraph forward = batch_norm_forward(*context.planner, shape, options.precision, tail,
                                                  operation.epsilon, operation.momentum);
  if (forward.graph == nullptr) return {};
  const bool forks = has_residual && ports.input_gradients[1] != nullptr;
  const PlannedGraph backward =
      batch_norm_backward(*context.planner, shape, options.precision,
                          {.incoming = ports.output_gradients.size() > 1 ? IncomingGradients::two
                                                                         : IncomingGradients::one,
                           .mask = step.with_relu ? ReluMask::from_output : ReluMask::none,
                           .fork = forks ? GradientFork::written : GradientFork::none});
  if (backward.graph == nullptr) return {};
  return {forward.graph, backward.graph};
}

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const Context& context, const Step& step, Ports ports) {
  OneNodeGraphs graphs = plan_one_node(context, step, ports);
  if (graphs.forward != nullptr) {
    return std::make_unique<OneNodeBatchNorm>(context, step, std::move(ports), std::move(graphs));
  }
  return make_for<TwoPassBatchNorm>(ports.output->type, context, step, std::move(ports));
}

}  // namespace lockstep::backend::cuda
