#include "convolution_choice.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "amx/convolution.hpp"
#include "amx/tiles.hpp"
#include "distributed_buffer.hpp"
#include "division.hpp"
#include "lockstep/core/buffer.hpp"
#include "onednn_convolution.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Number of output pixels that is sufficient to time a kernel.
constexpr std::int64_t timed_pixels = 512;
constexpr std::int64_t fewest_images = 4;

/// Timing ends when the times of the two fastest algorithms differ by this factor, or after
/// `most_runs` runs of each.
constexpr double clear_difference = 1.5;
constexpr int most_runs = 4;

/// Buffers for timing directions of one convolution, one after the other.
class Trial {
 public:
  Trial(Direction direction, const ConvolutionSizes& sizes, int threads, const FeatureMap& source,
        const FeatureMap& destination)
      : threads_(threads),
        source_(source),
        destination_(destination),
        source_bytes_(distributed_buffer(source.bytes(), threads)),
        destination_bytes_(distributed_buffer(destination.bytes(), threads)),
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

  /// Runs direction `which` once; returns the shortest time of its runs so far, in seconds.
  double run(std::size_t which) {
    if (workspace_.bytes() == 0) {
      std::size_t bytes = 1;
      for (const auto& direction : directions_)
        bytes = std::max(bytes, direction->workspace_bytes());
      workspace_ = distributed_buffer(bytes, threads_);
      best_.assign(directions_.size(), std::numeric_limits<double>::infinity());
      for (const auto& direction : directions_)
        direction->bind(workspace_.data(), weights_.as<float>().data(),
                        bias_.bytes() > 0 ? bias_.as<float>().data() : nullptr);
    }
    const auto begin = std::chrono::steady_clock::now();
    directions_[which]->run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return best_[which] = std::min(best_[which], taken.count());
  }

 private:
  int threads_;
  FeatureMap source_, destination_;
  core::Buffer source_bytes_, destination_bytes_, weights_, bias_, workspace_;
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

bool may_use_amx(const PlanOptions& options) {
  return options.convolution_algorithm == ConvolutionAlgorithm::amx ||
         (options.convolution_algorithm == ConvolutionAlgorithm::automatic &&
          amx::has_hardware_tiles());
}

std::unique_ptr<ConvolutionDirection> ConvolutionChooser::make_by(
    ConvolutionAlgorithm algorithm, const Context& context, Direction direction,
    const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination) const {
  switch (algorithm) {
    case ConvolutionAlgorithm::winograd:
      return winograd::make(direction, context.threads, source, destination);
    case ConvolutionAlgorithm::amx:
      return amx::make(direction, {.kernels = amx_kernels_.get(), .threads = context.threads},
                       sizes, source, destination);
    case ConvolutionAlgorithm::automatic:
    case ConvolutionAlgorithm::direct: break;
  }
  return make_onednn_direction(context, direction, sizes, source, destination);
}

namespace {

/// Returns the algorithms that may support a direction, in the order of `ChoiceRule::fixed`.
std::vector<ConvolutionAlgorithm> candidates_for(const PlanOptions& options, Direction direction,
                                                 const ConvolutionSizes& sizes,
                                                 const FeatureMap& source,
                                                 const FeatureMap& destination) {
  std::vector<ConvolutionAlgorithm> candidates;
  if (may_use_amx(options) && amx::fits(direction, sizes, source, destination))
    candidates.push_back(ConvolutionAlgorithm::amx);
  if (winograd::fits(sizes, source, destination))
    candidates.push_back(ConvolutionAlgorithm::winograd);
  // oneDNN has only slow reference kernels for maps with blocks of images.
  if (source.images_per_block() == 1 && destination.images_per_block() == 1)
    candidates.push_back(ConvolutionAlgorithm::direct);
  return candidates;
}

}  // namespace

ConvolutionAlgorithm ConvolutionChooser::choose(const Context& context, Direction direction,
                                                const ConvolutionSizes& sizes,
                                                const FeatureMap& source,
                                                const FeatureMap& destination) {
  const auto candidates = candidates_for(context.options, direction, sizes, source, destination);
  if (candidates.size() == 1 || rule_ == ChoiceRule::fixed) return candidates.front();
  return fastest(context, direction, sizes, source, destination).algorithm;
}

ConvolutionChooser::Timing ConvolutionChooser::fastest(const Context& context, Direction direction,
                                                       const ConvolutionSizes& sizes,
                                                       const FeatureMap& source,
                                                       const FeatureMap& destination) {
  auto candidates = candidates_for(context.options, direction, sizes, source, destination);
  const bool may_be_amx = candidates.front() == ConvolutionAlgorithm::amx;
  const std::int64_t fewest = may_be_amx ? amx::images_at_once * context.threads : fewest_images;
  const std::int64_t unit = std::max(source.images_per_block(), destination.images_per_block());
  ConvolutionSizes some = sizes;
  const std::int64_t sufficient =
      std::max(fewest, ceil_div(timed_pixels, sizes.out_height * sizes.out_width));
  some.images = std::min(sizes.images, ceil_div(sufficient, unit) * unit);
  const Key key{direction,        source.type,     source.layout,     destination.layout,
                context.threads,  some.images,     sizes.in_channels, sizes.out_channels,
                sizes.out_height, sizes.out_width, sizes.kernel,      sizes.stride,
                sizes.padding};
  if (const auto known = fastest_.find(key); known != fastest_.end()) return known->second;
  FeatureMap some_source = source, some_destination = destination;
  some_source.images = some_destination.images = some.images;
  Trial trial(direction, some, context.threads, some_source, some_destination);
  std::erase_if(candidates, [&](ConvolutionAlgorithm candidate) {
    auto made = make_by(candidate, context, direction, some, trial.source(), trial.destination());
    if (made == nullptr) return true;
    trial.add(std::move(made));
    return false;
  });
  Timing answer{ConvolutionAlgorithm::direct, std::numeric_limits<double>::infinity()};
  for (int run = 0; run < most_runs && !candidates.empty(); ++run) {
    std::vector<double> seconds;
    for (std::size_t which = 0; which < candidates.size(); ++which) {
      seconds.push_back(trial.run(which));
      core::report_progress(context.options.progress);
    }
    const auto best = std::ranges::min_element(seconds);
    answer = {candidates[static_cast<std::size_t>(best - seconds.begin())],
              *best / static_cast<double>(some.images)};
    std::ranges::sort(seconds);
    if (seconds.size() > 1 && seconds[1] > clear_difference * seconds[0]) break;
  }
  fastest_.emplace(key, answer);
  return answer;
}

std::unique_ptr<ConvolutionDirection> ConvolutionChooser::make(const Context& context,
                                                               Direction direction,
                                                               const ConvolutionSizes& sizes,
                                                               const FeatureMap& source,
                                                               const FeatureMap& destination) {
  ConvolutionAlgorithm algorithm = context.options.convolution_algorithm;
  if (algorithm == ConvolutionAlgorithm::automatic)
    algorithm = choose(context, direction, sizes, source, destination);
  const bool fits = algorithm == ConvolutionAlgorithm::winograd
                        ? winograd::fits(sizes, source, destination)
                        : algorithm == ConvolutionAlgorithm::amx &&
                              amx::fits(direction, sizes, source, destination);
  return make_by(fits ? algorithm : ConvolutionAlgorithm::direct, context, direction, sizes, source,
                 destination);
}

}  // namespace lockstep::backend::cpu
