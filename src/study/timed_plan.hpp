// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/timing/operation_clock.hpp"

namespace lockstep::study {

/// Phase of the copy of the images, which is no operation of the graph.
inline constexpr std::string_view upload_phase = "upload";

/// Part of a training step that a `TimedPlan` executes.
enum class StepPart { forward_backward, whole };

/// A training plan of one rank on random images that measures each operation, without
/// communication. A GPU replays the steps, as in a training. Its constructor throws the errors of
/// `Backend::compile`.
class TimedPlan {
 public:
  /// `options`: those of the plan (`train::training_options`).
  TimedPlan(backend::PlanOptions options, const graph::Graph& graph,
            const backend::Backend& backend, StepPart part);

  /// Uploads the images and executes the part of the step; returns its seconds, including the
  /// upload. The durations of the operations are added to `seconds()`.
  double step();

  /// Discards the durations of all steps.
  void forget();

  /// Returns the seconds of each operation by step; operations with the same key are added.
  const std::map<train::OperationKey, std::vector<double>>& seconds() const { return seconds_; }
  const backend::Plan& plan() const { return *plan_; }

 private:
  train::OperationClock clock_;
  std::map<train::OperationKey, std::vector<double>> seconds_;
  std::size_t steps_ = 0;
  backend::ModelState state_;
  std::unique_ptr<backend::Plan> plan_;
  std::unique_ptr<backend::StepExecutor> executor_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

}  // namespace lockstep::study
