// SPDX-License-Identifier: BSD-3-Clause
#include "convolution_choice.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "../cells/convolution.hpp"
#include "../kernels/division.hpp"
#include "../onednn.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "onednn_convolution.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Number of output pixels that is sufficient to time a kernel: with fewer, the conversion of many
/// weights takes a larger share of the time than in most batches.
constexpr std::int64_t timed_pixels = 2048;
constexpr std::int64_t fewest_images = 4;

/// Timing ends when the times of the two fastest algorithms differ by this factor, or after
/// `most_runs` runs of each. The first run of each is slower, because it is the first to use its
/// workspace.
constexpr double clear_difference = 1.5;
constexpr int fewest_runs = 2;
constexpr int most_runs = 4;

}  // namespace

std::string_view name(Direction direction) {
  constexpr std::string_view names[] = {"forward", "backward data", "backward weights"};
  return names[static_cast<std::size_t>(direction)];
}

CellKernels make_cell_kernels() {
  return {cells::make_amx_kernels(), cells::make_avx512_kernels()};
}

double run_and_time(ConvolutionAlgorithm, const ConvolutionProblem&,
                    ConvolutionDirection& direction) {
  const auto begin = std::chrono::steady_clock::now();
  direction.run();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

ConvolutionChooser::ConvolutionChooser(ChoiceRule rule, CellKernels kernels, TimedRun timed_run)
    : rule_(rule),
      kernels_(std::move(kernels)),
      emulated_(cells::make_emulated_kernels()),
      timed_run_(std::move(timed_run)) {}

const cells::Kernels* ConvolutionChooser::kernels_of(ConvolutionAlgorithm algorithm) const {
  switch (algorithm) {
    case ConvolutionAlgorithm::amx:
      return kernels_.amx != nullptr ? kernels_.amx.get() : emulated_.get();
    case ConvolutionAlgorithm::avx512_bf16: return kernels_.avx512.get();
    case ConvolutionAlgorithm::winograd_int16:
      return kernels_.avx512 != nullptr ? kernels_.avx512.get()
                                        : kernels_of(ConvolutionAlgorithm::amx);
    case ConvolutionAlgorithm::winograd_bf16:
      return kernels_.amx == nullptr && kernels_.avx512 != nullptr
                 ? kernels_.avx512.get()
                 : kernels_of(ConvolutionAlgorithm::amx);
    case ConvolutionAlgorithm::automatic:
    case ConvolutionAlgorithm::direct:
    case ConvolutionAlgorithm::winograd: break;
  }
  return nullptr;
}

std::vector<ConvolutionAlgorithm> ConvolutionChooser::algorithms(const PlanOptions& options) const {
  using enum ConvolutionAlgorithm;
  const ConvolutionAlgorithm named = options.convolution_algorithm;
  switch (named) {
    case automatic:
      if (kernels_.amx != nullptr) return {amx, winograd_int16, winograd_bf16, winograd, direct};
      if (kernels_.avx512 != nullptr)
        return {winograd_int16, winograd_bf16, avx512_bf16, winograd, direct};
      return {winograd, direct};
    case winograd_int16:
    case winograd_bf16:
      return {named, kernels_of(named) == kernels_.avx512.get() ? avx512_bf16 : amx, direct};
    case avx512_bf16:
      if (kernels_.avx512 == nullptr)
        core::fail(core::ExitStatus::usage,
                   "this processor has no AVX512-BF16 instructions, which --conv-algorithm "
                   "avx512-bf16 needs; use --conv-algorithm auto");
      break;
    case amx:
    case winograd:
    case direct: break;
  }
  return {named, direct};
}

bool ConvolutionChooser::may_use_cells(const PlanOptions& options) const {
  return std::ranges::any_of(algorithms(options), [&](ConvolutionAlgorithm algorithm) {
    return kernels_of(algorithm) != nullptr;
  });
}

std::vector<ConvolutionAlgorithm> ConvolutionChooser::candidates(
    const Context& context, const ConvolutionProblem& problem) const {
  auto all = algorithms(context.options);
  std::erase_if(all, [&](ConvolutionAlgorithm algorithm) {
    switch (algorithm) {
      case ConvolutionAlgorithm::winograd: return !winograd::fits(problem);
      case ConvolutionAlgorithm::winograd_int16:
        return !cells::winograd_fits(problem, cells::WinogradVariant::int16);
      case ConvolutionAlgorithm::winograd_bf16:
        return !cells::winograd_fits(problem, cells::WinogradVariant::bfloat16);
      case ConvolutionAlgorithm::amx:
      case ConvolutionAlgorithm::avx512_bf16: return !cells::fits(problem);
      case ConvolutionAlgorithm::direct:
        // oneDNN has only slow reference kernels for maps with blocks of images.
        return problem.source.images_per_block() > 1 || problem.destination.images_per_block() > 1;
      case ConvolutionAlgorithm::automatic: break;
    }
    return true;
  });
  return all;
}

std::unique_ptr<ConvolutionDirection> ConvolutionChooser::make_by(
    ConvolutionAlgorithm algorithm, const Context& context,
    const ConvolutionProblem& problem) const {
  const cells::Resources resources{.kernels = kernels_of(algorithm), .threads = context.threads};
  switch (algorithm) {
    case ConvolutionAlgorithm::winograd: return winograd::make(problem, context.threads);
    case ConvolutionAlgorithm::winograd_int16:
      return cells::make_winograd(problem, resources, cells::WinogradVariant::int16);
    case ConvolutionAlgorithm::winograd_bf16:
      return cells::make_winograd(problem, resources, cells::WinogradVariant::bfloat16);
    case ConvolutionAlgorithm::amx:
    case ConvolutionAlgorithm::avx512_bf16: return cells::make(problem, resources);
    case ConvolutionAlgorithm::automatic:
    case ConvolutionAlgorithm::direct: break;
  }
  return make_onednn_direction(context, problem);
}

ConvolutionChooser::Timing ConvolutionChooser::fastest(const Context& context,
                                                       const ConvolutionProblem& problem) {
  const auto& [direction, sizes, source, destination] = problem;
  // Equal numbers of images in all layouts, so that their times can be compared.
  const std::int64_t fewest =
      source.type == core::DataType::bfloat16 && may_use_cells(context.options)
          ? cells::cell_images * context.threads
          : fewest_images;
  const std::int64_t unit = std::max(source.images_per_block(), destination.images_per_block());
  const std::int64_t sufficient =
      std::max(fewest, ceil_div(timed_pixels, sizes.out_height * sizes.out_width));
  Key key{direction, source.type, source.layout, destination.layout, context.threads, sizes};
  key.sizes.images = std::min(sizes.images, ceil_div(sufficient, unit) * unit);
  if (const auto known = fastest_.find(key); known != fastest_.end()) return known->second;
  return fastest_[key] = measure(context, {direction, key.sizes, source, destination});
}

ConvolutionChooser::Timing ConvolutionChooser::measure(const Context& context,
                                                       const ConvolutionProblem& shapes) const {
  const ConvolutionSizes& sizes = shapes.sizes;
  FeatureMap source = shapes.source, destination = shapes.destination;
  source.images = destination.images = sizes.images;
  const core::Buffer source_bytes = distributed_buffer(source.bytes(), context.threads);
  const core::Buffer destination_bytes = distributed_buffer(destination.bytes(), context.threads);
  source.data = source_bytes.data();
  destination.data = destination_bytes.data();
  const ConvolutionProblem problem{shapes.direction, sizes, source, destination};
  std::vector<ConvolutionAlgorithm> algorithms;
  std::vector<std::unique_ptr<ConvolutionDirection>> directions;
  std::size_t workspace_bytes = 1;
  for (const auto algorithm : candidates(context, problem)) {
    auto made = make_by(algorithm, context, problem);
    if (made == nullptr) continue;
    // A reference kernel is never the fastest, and timing one can take many seconds.
    if (is_reference_kernel(made->implementation()) && !directions.empty()) continue;
    workspace_bytes = std::max(workspace_bytes, made->workspace_bytes());
    algorithms.push_back(algorithm);
    directions.push_back(std::move(made));
  }
  const core::Buffer workspace = distributed_buffer(workspace_bytes, context.threads);
  const core::Buffer weights(sizeof(float) *
                             static_cast<std::size_t>(sizes.out_channels * sizes.in_channels *
                                                      sizes.kernel * sizes.kernel));
  const core::Buffer bias(sizeof(float) * static_cast<std::size_t>(sizes.out_channels));
  const bool has_bias = sizes.has_bias && problem.direction != Direction::backward_data;
  for (const auto& direction : directions)
    direction->bind(workspace.data(), weights.as<float>().data(),
                    has_bias ? bias.as<float>().data() : nullptr);

  Timing answer{ConvolutionAlgorithm::direct, std::numeric_limits<double>::infinity()};
  std::vector<double> seconds(directions.size(), answer.seconds_per_image);  // shortest of each
  for (int run = 0; run < most_runs && !directions.empty(); ++run) {
    for (std::size_t which = 0; which < directions.size(); ++which) {
      seconds[which] =
          std::min(seconds[which], timed_run_(algorithms[which], problem, *directions[which]));
      core::report_progress(context.options.progress);
    }
    const auto best = std::ranges::min_element(seconds);
    answer = {algorithms[static_cast<std::size_t>(best - seconds.begin())],
              *best / static_cast<double>(sizes.images)};
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    const bool is_clear = sorted.size() > 1 && sorted[1] > clear_difference * sorted[0];
    if (is_clear && run + 1 >= fewest_runs) break;
  }
  return answer;
}

std::unique_ptr<ConvolutionDirection> ConvolutionChooser::make(const Context& context,
                                                               const ConvolutionProblem& problem) {
  const auto all = candidates(context, problem);
  if (all.empty()) return nullptr;
  return make_by(is_timed(context.options) && all.size() > 1 ? fastest(context, problem).algorithm
                                                             : all.front(),
                 context, problem);
}

}  // namespace lockstep::backend::cpu
