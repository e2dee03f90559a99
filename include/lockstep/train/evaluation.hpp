#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Sums over the whole test set.
struct Evaluation {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;

  double loss() const { return loss_sum / static_cast<double>(images); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
};

/// Images per inference batch of each of `ranks` ranks: enough to be fast, few enough to stay small
/// beside training.
std::int64_t evaluation_batch(std::size_t test_images, int ranks);

/// Scores the test set: image i by rank i mod ranks, so each exactly once.
class Evaluator {
 public:
  /// Compiles the inference plan on `state`; all of these outlive the evaluator.
  Evaluator(const Config& config, const graph::Graph& graph, const data::Dataset& test,
            const backend::Backend& backend, backend::ModelState& state,
            comm::Communicator& communicator);

  /// With `BatchNormMode::broadcast`, copies rank 0's running statistics to all ranks first.
  /// Collective.
  Evaluation run();

 private:
  const data::Dataset& test_;
  const backend::Backend& backend_;
  backend::ModelState& state_;
  comm::Communicator& communicator_;
  BatchNormMode batch_norm_;
  std::size_t batch_;
  std::unique_ptr<backend::Plan> plan_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

}  // namespace lockstep::train
