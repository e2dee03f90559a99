#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../fusion.hpp"
#include "../context.hpp"
#include "../dnn/batch_norm_graphs.hpp"

// Batch norm is a forward and a backward pass, and there are several ways to compute each: cuDNN's
// one node, graphs of plain operations, our own kernels. The ways that a device has are made from
// shapes, timed against each other, and one of each is kept.

namespace lockstep::backend::cuda {

/// What a pass is made for.
struct BatchNormSetting {
  const Context* context = nullptr;
  BatchNormShape shape;
  bool has_residual = false, has_relu = false;
  float epsilon = 0, momentum = 0;
  bool output_is_written = true;         ///< else who reads the output makes it from x again
  std::size_t output_gradients = 1;      ///< one or two come in and are added up
  bool wants_input_gradient = true;      ///< dx
  bool wants_residual_gradient = false;  ///< the sum of what comes in, through the ReLU

  std::int64_t rows() const { return shape.images * shape.height * shape.width; }
  std::int64_t channels() const { return shape.channels; }
};

/// Memory on the device that the passes of one batch norm share. Maps (rows, channels) of the
/// plan's type; vectors (channels).
struct BatchNormMemory {
  std::byte* x = nullptr;
  std::byte* residual = nullptr;  ///< null: none
  std::byte* y = nullptr;
  std::byte* dy = nullptr;
  std::byte* dy_more = nullptr;  ///< null: none
  std::byte* dx = nullptr;
  std::byte* masked = nullptr;  ///< the residual's gradient; null: not wanted
  float* gamma = nullptr;
  float* beta = nullptr;
  float* gamma_gradient = nullptr;
  float* beta_gradient = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  float* kept = nullptr;     ///< `batch_norm_kept_floats`, from the forward to the backward pass
  float* sums = nullptr;     ///< a convolution's, of x
  float* squares = nullptr;  ///< a convolution's, of x x
  std::byte* half_scale = nullptr;   ///< float16, for a convolution; null: not wanted
  std::byte* half_offset = nullptr;  ///< float16, likewise
  std::byte* scratch = nullptr;
};

/// Floats from one vector of channels to the next: cuDNN asks for multiples of 16 bytes.
constexpr std::int64_t vector_stride(std::int64_t channels) { return (channels + 3) / 4 * 4; }

/// The kept vectors, one after the other.
struct BatchNormKept {
  BatchNormKept(float* kept, std::int64_t channels)
      : mean(kept),
        inverse_deviation(kept + vector_stride(channels)),
        scale(kept + 2 * vector_stride(channels)),
        offset(kept + 3 * vector_stride(channels)),
        totals(kept + 4 * vector_stride(channels)) {}
  float *mean, *inverse_deviation;
  float *scale, *offset;  ///< left by all forward passes but the one node
  float* totals;          ///< (2 channels + 1): left where replicas are summed
};
constexpr std::int64_t batch_norm_kept_floats(std::int64_t channels) {
  return 4 * vector_stride(channels) + 2 * channels + 1;
}

/// One way to compute one pass.
class BatchNormPass {
 public:
  virtual ~BatchNormPass() = default;
  virtual std::string name() const = 0;
  virtual std::size_t scratch_bytes() const = 0;
  virtual void bind(const BatchNormMemory& memory) = 0;
  virtual void run() = 0;
};

class BatchNormForward : public BatchNormPass {
 public:
  /// Whether scale and offset are left for the backward pass.
  virtual bool leaves_coefficients() const { return true; }
};

class BatchNormBackward : public BatchNormPass {
 public:
  virtual bool reads_output() const = 0;
};

/// What lies around a batch norm, as far as its passes ask.
struct BatchNormSurroundings {
  std::size_t output_gradients = 1;
  bool input = true;      ///< its gradient is wanted
  bool residual = false;  ///< its gradient is wanted
  bool output_is_written = true;
};
BatchNormSetting make_batch_norm_setting(const Context& context, const Step& step,
                                         const BatchNormSurroundings& around);

/// Where the sums over a batch come from.
enum class SumsFrom { batch_norm, convolution };

/// The ways to go forward, the preferred first; there is always one. After a convolution that
/// summed its output (`BatchNormMemory::sums`), or without.
std::vector<std::unique_ptr<BatchNormForward>> forward_ways(const BatchNormSetting& setting,
                                                            SumsFrom sums);

/// The ways back behind `forward`, likewise.
std::vector<std::unique_ptr<BatchNormBackward>> backward_ways(const BatchNormSetting& setting,
                                                              const BatchNormForward& forward);

/// Seconds of a pass on the GPU with cold caches, remembered as the engines are; 0 where there is
/// no GPU, no memory to time it in, or runs are to be repeatable.
double seconds_of(const BatchNormSetting& setting, BatchNormPass& pass);

/// The fastest of them, with its seconds; the first one, 0 where nothing can be timed.
template <class Way>
struct TimedWay {
  std::unique_ptr<Way> way;
  double seconds = 0;
};
template <class Way>
TimedWay<Way> fastest(const BatchNormSetting& setting, std::vector<std::unique_ptr<Way>> ways) {
  TimedWay<Way> best;
  for (auto& way : ways) {
    const double seconds = seconds_of(setting, *way);
    const bool is_faster = seconds > 0 && (best.seconds == 0 || seconds < best.seconds);
    if (best.way == nullptr || is_faster) best = {std::move(way), seconds};
  }
  return best;
}

}  // namespace lockstep::backend::cuda
