// SPDX-License-Identifier: BSD-3-Clause
// Updates of the parameters of a plan.

#include <algorithm>
#include <limits>
#include <span>

#include "../parameters.hpp"
#include "launch.hpp"
#include "plan.hpp"

namespace lockstep::backend::cuda {

LocalRates::LocalRates(const graph::Graph& graph, const Segments& segments)
    : ranges_(parameter_ranges(graph)),
      table_(core::device_buffer(ranges_.size() * sizeof(kernels::ParameterSegments),
                                 "the segments of the parameters")),
      squares_(core::device_buffer(segments.host().size() * sizeof(kernels::SegmentSquares),
                                   "sums of squares")),
      rates_(core::device_buffer(ranges_.size() * sizeof(float), "local learning rates")) {
  std::vector<kernels::ParameterSegments> table(ranges_.size());
  for (std::size_t i = 0; i < segments.host().size(); ++i) {
    auto& range = table.at(static_cast<std::size_t>(segments.host()[i].parameter));
    if (range.end == 0) range.first = static_cast<std::int32_t>(i);
    range.end = static_cast<std::int32_t>(i) + 1;
  }
  core::copy_to_device(table_.data(), std::as_bytes(std::span(table)),
                       "copying a table of parameters");
}

LocalRates::Parameters LocalRates::complete(std::size_t first, std::size_t count) const {
  const auto after = [&](std::size_t element) {
    const auto found = std::ranges::upper_bound(ranges_, element, {}, &optim::ParameterRange::end);
    return static_cast<std::size_t>(found - ranges_.begin());
  };
  const std::size_t begin = after(first), end = after(first + count);
  if (begin == end) return {};
  return {.index = begin,
          .count = end - begin,
          .first = ranges_[begin].begin,
          .end = ranges_[end - 1].end};
}

void LocalRates::compute(cudaStream_t stream, const Segments& segments, Parameters parameters,
                         const kernels::UpdateArguments& update) const {
  auto* const squares = reinterpret_cast<kernels::SegmentSquares*>(squares_.data());
  const kernels::Segment* const all = segments.all().segments;
  launch(stream, kernels::SegmentSums{update.table, update.parameters,
                                      squares + (update.table.segments - all)});
  launch(stream,
         kernels::LocalRates{
             reinterpret_cast<const kernels::ParameterSegments*>(table_.data()) + parameters.index,
             static_cast<std::int64_t>(parameters.count), all, squares, update.coefficients,
             update.loss_scale, update.clip_factor, rates_.as<float>().data() + parameters.index});
}

void CudaPlan::update(std::size_t first, std::size_t count) {
  if (!has_loss_scale() && !has_clipping()) {
    update_range(first, count);
    return;
  }
  // Whether to skip the step, and the norm of the gradients, are known only when all gradients are
  // available. All ranks have the same reduced gradients, so they make the same decision.
  if (first + count < state_.elements()) return;
  compute_clipping_factor();  // also detects an overflow
  update_range(0, state_.elements());
  if (has_loss_scale()) launch(stream_, kernels::LossScaleUpdate{&scalars()->loss_scale});
}

void CudaPlan::compute_clipping_factor() {
  const double max_norm = has_clipping() ? operations_.options().max_gradient_norm
                                         : std::numeric_limits<double>::infinity();
  launch(stream_, kernels::GradientSquares{segments_.all(), &scalars()->clipping});
  launch(stream_,
         kernels::ClippingFactor{&scalars()->clipping, &upload_.current().inputs->update,
                                 has_loss_scale() ? &scalars()->loss_scale : nullptr, max_norm});
}

kernels::UpdateArguments CudaPlan::update_arguments(std::size_t begin, std::size_t end) const {
  return {.table = segments_.part(begin, end),
          .parameters = state_.parameters(),
          .velocity = state_.momentum(),
          .coefficients = &upload_.current().inputs->update,
          .loss_scale = has_loss_scale() ? &scalars()->loss_scale : nullptr,
          .clip_factor = has_clipping() ? &scalars()->clipping.factor : nullptr};
}

void CudaPlan::update_range(std::size_t first, std::size_t count) {
  switch (operations_.options().optimiser) {
    case optim::Kind::sgd:
      return launch(stream_, kernels::SgdUpdate{update_arguments(first, first + count)});
    case optim::Kind::adamw:
      return launch(stream_, kernels::AdamWUpdate{update_arguments(first, first + count),
                                                  state_.second_moment()});
    case optim::Kind::lars: break;
  }
  const LocalRates::Parameters parameters = local_rates_.complete(first, count);
  const auto arguments = update_arguments(parameters.first, parameters.end);
  local_rates_.compute(stream_, segments_, parameters, arguments);
  launch(stream_, kernels::LarsUpdate{arguments, local_rates_.rates()});
}

}  // namespace lockstep::backend::cuda
