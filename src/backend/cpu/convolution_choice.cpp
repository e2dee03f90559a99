#include "convolution_choice.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "onednn_convolution.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Output pixels that are enough to time a kernel.
constexpr std::int64_t timed_pixels = 512;
constexpr std::int64_t fewest_images = 4;

/// Where the first runs differ by this factor, there is no second.
constexpr double clear_difference = 1.5;
constexpr int most_runs = 4;

/// Memory to try directions of one convolution on, one after the other.
class Trial {
 public:
  Trial(Direction direction, const ConvolutionSizes& sizes, const FeatureMap& source,
        const FeatureMap& destination)
      : source_(source),
        destination_(destination),
        source_bytes_(source.bytes()),
        destination_bytes_(destination.bytes()),
        weights_(static_cast<std::size_t>(sizes.out_channels * sizes.in_channels * sizes.kernel *
                                          sizes.kernel) *
                 sizeof(float)),
        bias_(sizes.has_bias && direction != Direction::backward_data
                  ? static_cast<std::size_t>(sizes.out_channels) * sizeof(float)
                  : 0) {
    source_.data = source_bytes_.data();
    destination_.data = destination_bytes_.data();
  }
  const FeatureMap& source() const { return source_; }
  const FeatureMap& destination() const { return destination_; }

  void add(std::unique_ptr<ConvolutionDirection> direction) {
    directions_.push_back(std::move(direction));
  }

  /// Shorter of its runs so far, in seconds, this one included.
  double run(std::size_t which) {
    if (scratch_.bytes() == 0) {
      std::size_t bytes = 1;
      for (const auto& direction : directions_) bytes = std::max(bytes, direction->scratch_bytes());
      scratch_ = core::Buffer(bytes);
      best_.assign(directions_.size(), std::numeric_limits<double>::infinity());
      for (const auto& direction : directions_)
        direction->bind(scratch_.data(), weights_.as<float>().data(),
                        bias_.bytes() > 0 ? bias_.as<float>().data() : nullptr);
    }
    const auto begin = std::chrono::steady_clock::now();
    directions_[which]->run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return best_[which] = std::min(best_[which], taken.count());
  }

 private:
  FeatureMap source_, destination_;
  core::Buffer source_bytes_, destination_bytes_, weights_, bias_, scratch_;
  std::vector<std::unique_ptr<ConvolutionDirection>> directions_;
  std::vector<double> best_;
};

}  // namespace

std::string_view name(Direction direction) {
  switch (direction) {
    case Direction::forward: return "forward";
    case Direction::backward_data: return "backward data";
    case Direction::backward_weights: return "backward weights";
  }
  return {};
}

bool ConvolutionChooser::winograd_is_faster(const Context& context, Direction direction,
                                            const ConvolutionSizes& sizes, const FeatureMap& source,
                                            const FeatureMap& destination) {
  const std::int64_t pixels = sizes.out_height * sizes.out_width;
  ConvolutionSizes some = sizes;
  some.images =
      std::min(sizes.images, std::max(fewest_images, (timed_pixels + pixels - 1) / pixels));
  const Key key{direction,        source.type,    source.layout,     destination.layout,
                context.threads,  some.images,    sizes.in_channels, sizes.out_channels,
                sizes.out_height, sizes.out_width};
  if (const auto known = winograd_is_faster_.find(key); known != winograd_is_faster_.end())
    return known->second;
  FeatureMap some_source = source, some_destination = destination;
  some_source.images = some_destination.images = some.images;
  Trial trial(direction, some, some_source, some_destination);
  auto direct =
      make_onednn_direction(context, direction, some, trial.source(), trial.destination());
  bool answer = direct == nullptr;
  if (direct != nullptr) {
    trial.add(std::move(direct));
    trial.add(winograd::make(direction, context.threads, trial.source(), trial.destination()));
    for (int run = 0; run < most_runs; ++run) {
      const double direct_seconds = trial.run(0);
      core::report_progress(context.options.progress);
      const double ratio = direct_seconds / trial.run(1);
      core::report_progress(context.options.progress);
      answer = ratio > 1;
      if (ratio > clear_difference || ratio < 1 / clear_difference) break;
    }
  }
  winograd_is_faster_.emplace(key, answer);
  return answer;
}

std::unique_ptr<ConvolutionDirection> ConvolutionChooser::make(const Context& context,
                                                               Direction direction,
                                                               const ConvolutionSizes& sizes,
                                                               const FeatureMap& source,
                                                               const FeatureMap& destination) {
  const ConvolutionAlgorithm wanted = context.options.convolution_algorithm;
  const bool takes_winograd = wanted != ConvolutionAlgorithm::direct &&
                              winograd::fits(sizes, source, destination) &&
                              (wanted == ConvolutionAlgorithm::winograd ||
                               winograd_is_faster(context, direction, sizes, source, destination));
  if (takes_winograd) return winograd::make(direction, context.threads, source, destination);
  return make_onednn_direction(context, direction, sizes, source, destination);
}

}  // namespace lockstep::backend::cpu
