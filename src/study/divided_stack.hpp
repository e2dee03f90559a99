// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::study {

/// A stack of equal layers that is divided over the ranks of a communicator, one stage of a
/// pipeline each, and the training plan of this rank.
class DividedStack {
 public:
  /// `depth`: number of layers, at least one per rank; their numbers per rank differ by at most 1.
  /// References must outlive the object. Throws `Error` (usage) if the stack cannot be cut before
  /// this layer.
  DividedStack(const train::Config& config, const graph::Layer& layer, std::int64_t depth,
               const backend::Backend& backend, comm::Communicator& world);
  DividedStack(const DividedStack&) = delete;
  DividedStack& operator=(const DividedStack&) = delete;

  /// Returns the memory of the plan in bytes, from shapes.
  std::uint64_t estimate() const;

  /// Allocates the plan and executes its passes once without communication. If `limit` is given,
  /// this process can allocate only that many further bytes in the meantime. Throws `AgreedError`
  /// if a rank fails. Collective.
  void prepare(std::optional<std::uint64_t> limit);

  /// Executes a forward pass through all stages after `prepare` and returns its seconds on the
  /// slowest rank, including the copy of the random images. Collective.
  double forward();

  /// Executes the backward pass that belongs to the last forward pass. Must follow the last
  /// `forward`, because it also completes the messages. Collective.
  void backward();

 private:
  const train::Config& config_;
  const backend::Backend& backend_;
  comm::Communicator& world_;
  backend::PlanOptions options_;
  graph::Graph stack_;
  train::Pipeline pipeline_;
  std::optional<backend::ModelState> state_;
  std::unique_ptr<backend::Plan> plan_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

}  // namespace lockstep::study
