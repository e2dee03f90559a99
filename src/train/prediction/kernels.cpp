#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

#include "lockstep/backend/fusion.hpp"
#include "lockstep/core/error.hpp"
#include "tiles.hpp"

namespace lockstep::train {

namespace {

using backend::MapTraffic;
using backend::Step;

constexpr double float_bytes = sizeof(float);

double element_bytes(core::Precision precision) {
  const bool is_half = precision == core::Precision::bf16 || precision == core::Precision::fp16;
  return is_half ? 2 : float_bytes;
}

/// Batch norm in a single kernel that keeps its input on the chip: the plan has chosen no other.
constexpr MapTraffic default_traffic{.read = 1, .written = 1};

class KernelList {
 public:
  KernelList(const GpuModel& gpu, const Config& config, const graph::Graph& graph,
             std::span<const backend::OperationChoice> choices,
             const comm::BucketPartition& buckets)
      : gpu_(gpu),
        config_(config),
        graph_(graph),
        choices_(choices),
        buckets_(buckets),
        steps_(backend::fuse(graph)),
        readers_(steps_.size()),
        batch_(static_cast<double>(config.batch_per_rank)),
        element_(element_bytes(config.precision)) {
    for (const Step& step : steps_)
      for (const int input : step.inputs) ++readers_[static_cast<std::size_t>(input)];
  }

  StepKernels list() {
    normalise();
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (!steps_[i].inputs.empty()) forward(i);
    add({.what = "copy of the result", .phase = "forward"});
    for (std::size_t i = steps_.size(); i-- > 0;) {
      if (!steps_[i].inputs.empty()) backward(i);
      finish_gradients(i);
    }
    updates();
    // Start, data wait and upload, end of the forward and of the backward pass, and wait and update
    // of each bucket.
    list_.timestamps = 5 + 2 * static_cast<int>(std::max<std::size_t>(buckets_.count(), 1));
    return std::move(list_);
  }

 private:
  KernelWork& add(KernelWork work) {
    work.gradients_final = converted_;
    return list_.compute.emplace_back(std::move(work));
  }

  static Interval exactly(double value) { return {value, value}; }

  std::string describe(const Step& step) const {
    if (std::holds_alternative<graph::Flatten>(step.operation)) return "flatten";
    return graph_.describe(step.node);
  }

  // --- maps

  const Step& input_of(const Step& step, std::size_t index = 0) const {
    return steps_[static_cast<std::size_t>(step.inputs[index])];
  }
  bool is_vector(const Step& step) const {
    const graph::OutputForm form = graph::output_form(step.operation);
    if (form == graph::OutputForm::same_as_input && !step.inputs.empty())
      return is_vector(input_of(step));
    return form == graph::OutputForm::vector;
  }
  double element_of(const Step& step) const { return is_vector(step) ? float_bytes : element_; }

  /// Returns the channels of a map in memory: those of the images are padded to 16 bytes.
  double channels_of(const Step& step) const {
    const auto channels = static_cast<double>(step.output.channels);
    if (!graph::is_input(step.operation)) return channels;
    const double pack = 16 / element_;
    return std::ceil(channels / pack) * pack;
  }
  double map_bytes(const Step& step) const {
    return batch_ * channels_of(step) * static_cast<double>(step.output.pixels()) *
           element_of(step);
  }

  graph::NodeCost cost_of(const Step& step) const {
    std::vector<core::ImageShape> shapes;
    for (const int input : step.inputs)
      shapes.push_back(steps_[static_cast<std::size_t>(input)].output);
    // A fused addition has its own input; the cost is that of the operation alone.
    shapes.resize(graph::input_count(step.operation), shapes.front());
    return graph::cost_of(step.operation, shapes, step.output);
  }
  double parameter_values(const Step& step) const {
    double values = 0;
    for (const std::size_t index : step.parameters)
      values += static_cast<double>(graph_.parameters()[index].elements);
    return values;
  }

  // --- forward pass

  /// The copy of the batch to the device overlaps with the previous step.
  void normalise() {
    const core::ImageShape image = graph_.image();
    const double pixels = batch_ * static_cast<double>(image.elements());
    add({.what = "crop, flip and normalise",
         .phase = "forward",
         .flops = pixels,
         .bytes = exactly(pixels + map_bytes(steps_.front()))});
  }

  void forward(std::size_t index) {
    const Step& step = steps_[index];
    if (std::holds_alternative<graph::Convolution>(step.operation)) {
      convolution(step, "forward", cost_of(step).forward_flops,
                  {.rows = batch_ * static_cast<double>(step.output.pixels()),
                   .columns = static_cast<double>(step.output.channels)});
    } else if (std::holds_alternative<graph::BatchNorm>(step.operation)) {
      batch_norm(step, "forward", cost_of(step).forward_flops);
    } else {
      other(step, "forward", cost_of(step).forward_flops, cost_of(step).forward_values,
            is_loss(step) ? 2 : 1);
    }
  }

  static bool is_loss(const Step& step) {
    return std::holds_alternative<graph::SoftmaxCrossEntropy>(step.operation);
  }

  /// A convolution reads two of input, weights and output, and writes the third, or the gradients.
  void convolution(const Step& step, std::string phase, double flops_per_image,
                   const ProductShape& product) {
    const double weights = parameter_values(step) * element_ * channels_of(input_of(step)) /
                           static_cast<double>(input_of(step).output.channels);
    add({.what = describe(step),
         .phase = std::move(phase),
         .kind = KernelKind::convolution,
         .flops = batch_ * flops_per_image,
         .bytes = exactly(map_bytes(input_of(step)) + map_bytes(step) + weights),
         .tiles = tile_efficiency(product, gpu_)});
  }

  void batch_norm(const Step& step, std::string phase, double flops_per_image) {
    const auto choice = std::ranges::find_if(choices_, [&](const auto& candidate) {
      return candidate.node == step.node && candidate.phase == phase;
    });
    const MapTraffic traffic =
        choice != choices_.end() && choice->traffic ? *choice->traffic : default_traffic;
    const double map = map_bytes(step);
    const Interval again = read_again(traffic, map);
    const double once = (traffic.read + traffic.written) * map;
    add({.what = describe(step),
         .phase = std::move(phase),
         .kind = traffic.kernels == 1 ? KernelKind::batch_norm : KernelKind::streaming,
         .flops = batch_ * flops_per_image,
         .bytes = {once + again.low, once + again.high},
         .kernels = traffic.kernels});
  }

  /// Returns the bytes that the second traversal reads from memory. A single kernel keeps what fits
  /// on the chip and reads the rest again; at worst it keeps all or nothing. Between kernels, the
  /// second-level cache keeps the maps if all fit; at worst it keeps nothing.
  Interval read_again(const MapTraffic& traffic, double map) const {
    const double all = traffic.read_again * map;
    const double held = traffic.held * map;
    if (all == 0) return {0, 0};
    if (traffic.kernels > 1) return {held <= gpu_.second_level_cache ? 0 : all, all};
    return {all * std::max(0.0, 1 - gpu_.on_chip_memory.high / held),
            held <= gpu_.on_chip_memory.low ? 0 : all};
  }

  void other(const Step& step, std::string phase, double flops, double values, int kernels) {
    const double parameters = parameter_values(step) * float_bytes;
    add({.what = describe(step),
         .phase = std::move(phase),
         .flops = batch_ * flops,
         .bytes = exactly(batch_ * values * element_of(input_of(step)) + parameters),
         .kernels = kernels});
  }

  // --- backward pass

  void backward(std::size_t index) {
    const Step& step = steps_[index];
    add_gradients(index);
    const graph::NodeCost cost = cost_of(step);
    if (const auto* const operation = std::get_if<graph::Convolution>(&step.operation)) {
      convolution_backward(step, *operation, cost);
    } else if (std::holds_alternative<graph::BatchNorm>(step.operation)) {
      batch_norm(step, "backward", cost.backward_data_flops);
    } else {
      // Linear: partial sums and totals of the weight gradient, gradients of bias and input.
      const bool is_linear = std::holds_alternative<graph::Linear>(step.operation);
      other(step, "backward", cost.backward_data_flops + cost.backward_weight_flops,
            cost.backward_values, is_linear ? 4 : 1);
    }
  }

  /// Adds the gradients of an output that has more readers than its operation can sum.
  void add_gradients(std::size_t index) {
    const Step& step = steps_[index];
    const int taken = std::holds_alternative<graph::BatchNorm>(step.operation) ? 2 : 1;
    for (int extra = taken; extra < readers_[index]; ++extra)
      add({.what = "addition of gradients",
           .phase = "backward",
           .bytes = exactly(3 * map_bytes(step))});
  }

  void convolution_backward(const Step& step, const graph::Convolution& operation,
                            const graph::NodeCost& cost) {
    const Step& input = input_of(step);
    if (!graph::is_input(input.operation)) {
      convolution(step, "backward data", cost.backward_data_flops,
                  {.rows = batch_ * static_cast<double>(input.output.pixels()),
                   .columns = static_cast<double>(input.output.channels)});
    }
    const double window = static_cast<double>(operation.kernel * operation.kernel);
    convolution(step, "backward weights", cost.backward_weight_flops,
                {.rows = static_cast<double>(step.output.channels),
                 .columns = channels_of(input) * window,
                 .split = ProductShape::Split::reduction});
    if (operation.has_bias)
      add({.what = describe(step),
           .phase = "gradient of the bias",
           .bytes = exactly(map_bytes(step)),
           .kernels = 2});
  }

  // --- gradients and update

  bool has_native_copy(const graph::Parameter& parameter) const {
    return parameter.shape.size() == 4;  // weights of convolutions
  }
  double native_bytes(const graph::Parameter& parameter) const {
    return has_native_copy(parameter) ? element_ : float_bytes;
  }
  double flat_bytes() const { return static_cast<double>(core::size_of(config_.gradient_type)); }

  /// Returns the sum over the elements [begin, end) of the flat buffer of `bytes(parameter)`.
  template <class Bytes>
  double sum_over(std::size_t begin, std::size_t end, Bytes bytes) const {
    double sum = 0;
    for (const graph::Parameter& parameter : graph_.parameters()) {
      const std::size_t first = std::max(begin, parameter.offset);
      const std::size_t last = std::min(end, parameter.offset + parameter.elements);
      if (first < last) sum += static_cast<double>(last - first) * bytes(parameter);
    }
    return sum;
  }

  /// Counts the gradients that are final after a step; converts them to the flat buffer in portions
  /// of at least a bucket, as the plan does.
  void finish_gradients(std::size_t index) {
    for (const std::size_t parameter : steps_[index].parameters) {
      const graph::Parameter& last = graph_.parameters()[parameter];
      final_ = std::max(final_, last.offset + last.elements);
    }
    if (index == 0) final_ = graph_.parameter_elements();
    const bool is_enough = buckets_.count() > 0 && final_ - converted_ >= buckets_.length(0);
    if (!is_enough && final_ != graph_.parameter_elements()) return;
    if (converted_ == final_) return;
    const std::size_t begin = converted_;
    converted_ = final_;
    const double bytes = sum_over(begin, final_, [&](const graph::Parameter& parameter) {
      const double native = native_bytes(parameter);
      return native != flat_bytes() ? native + flat_bytes() : 0;
    });
    if (buckets_.count() == 0 || bytes == 0) {
      list_.compute.back().gradients_final = converted_;
      return;
    }
    add({.what = "conversion of gradients", .phase = "backward", .bytes = exactly(bytes)});
  }

  void updates() {
    const std::size_t all = graph_.parameter_elements();
    const bool is_scaled = config_.precision == core::Precision::fp16;
    const bool is_clipped = config_.max_gradient_norm > 0;
    const bool needs_all = is_scaled || is_clipped;
    const std::size_t count = needs_all ? 1 : std::max<std::size_t>(buckets_.count(), 1);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = count > 1 ? buckets_.begin(i) : 0;
      const std::size_t end = count > 1 ? buckets_.end(i) : all;
      KernelWork work{.what = "SGD with momentum", .phase = "update"};
      const auto gradient = [&](const graph::Parameter& parameter) {
        return buckets_.count() > 0 ? flat_bytes() : native_bytes(parameter);
      };
      const double gradients = sum_over(begin, end, gradient);
      // Parameter and momentum are read and written; the native copy of the weights is written.
      const double rest = sum_over(begin, end, [&](const graph::Parameter& parameter) {
        return 4 * float_bytes + (has_native_copy(parameter) ? element_ : 0);
      });
      // The check of the loss scale and the norm for clipping each read the gradients.
      const double checks = (is_scaled ? gradients : 0) + (is_clipped ? gradients : 0);
      work.bytes = exactly(gradients + rest + checks);
      work.flops = 6 * static_cast<double>(end - begin);
      work.kernels = 1 + 2 * (is_scaled ? 1 : 0) + 2 * (is_clipped ? 1 : 0);
      list_.updates.push_back(std::move(work));
    }
  }

  const GpuModel& gpu_;
  const Config& config_;
  const graph::Graph& graph_;
  std::span<const backend::OperationChoice> choices_;
  const comm::BucketPartition& buckets_;
  std::vector<Step> steps_;
  std::vector<int> readers_;  ///< by step: number of operations that read its output
  double batch_;
  double element_;                         ///< bytes of an element of a feature map
  std::size_t final_ = 0, converted_ = 0;  ///< leading elements of the flat gradients
  StepKernels list_;
};

}  // namespace

StepKernels list_kernels(const GpuModel& gpu, const Config& config, const graph::Graph& graph,
                         std::span<const backend::OperationChoice> choices,
                         const comm::BucketPartition& buckets) {
  return KernelList(gpu, config, graph, choices, buckets).list();
}

}  // namespace lockstep::train
