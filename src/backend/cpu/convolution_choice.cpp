#include "convolution_choice.hpp"

#include <algorithm>
#include <chrono>

#include "lockstep/core/buffer.hpp"
#include "onednn_convolution.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Output pixels that are enough to time a kernel.
constexpr std::int64_t timed_pixels = 1024;
constexpr std::int64_t fewest_images = 8;

/// Where the first runs differ by this factor, there is no second.
constexpr double clear_difference = 1.5;
constexpr int most_runs = 4;

/// A direction on memory of its own, to be timed.
class Trial {
 public:
  template <class Make>
  Trial(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination,
        Make&& make)
      : source_(source),
        destination_(destination),
        maps_{core::Buffer(source.bytes()), core::Buffer(destination.bytes())},
        weights_(static_cast<std::size_t>(sizes.out_channels * sizes.in_channels * sizes.kernel *
                                          sizes.kernel) *
                 sizeof(float)),
        bias_(sizes.has_bias ? static_cast<std::size_t>(sizes.out_channels) * sizeof(float) : 0) {
    source_.data = maps_[0].data();
    destination_.data = maps_[1].data();
    direction_ = make(source_, destination_);
    if (direction_ == nullptr) return;
    scratch_ = core::Buffer(direction_->scratch_bytes());
    direction_->bind(scratch_.data(), weights_.as<float>().data(),
                     sizes.has_bias ? bias_.as<float>().data() : nullptr);
  }

  bool exists() const { return direction_ != nullptr; }

  void run() {
    const auto begin = std::chrono::steady_clock::now();
    direction_->run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best_ = std::min(best_, taken.count());
  }
  double best_seconds() const { return best_; }

 private:
  FeatureMap source_, destination_;
  core::Buffer maps_[2];
  core::Buffer weights_, bias_, scratch_;
  std::unique_ptr<ConvolutionDirection> direction_;
  double best_ = 1e9;
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
  Trial direct(some, some_source, some_destination, [&](const auto& from, const auto& to) {
    return make_onednn_direction(context, direction, some, from, to);
  });
  Trial fast(some, some_source, some_destination, [&](const auto& from, const auto& to) {
    return winograd::make(direction, context.threads, from, to);
  });
  bool answer = true;
  if (direct.exists()) {
    for (int run = 0; run < most_runs; ++run) {
      direct.run();
      fast.run();
      const double ratio = direct.best_seconds() / fast.best_seconds();
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
