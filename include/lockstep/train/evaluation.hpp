// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::train {

/// Results of an evaluation, summed over the whole test set.
struct Evaluation {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;

  double loss() const { return loss_sum / static_cast<double>(images); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
};

/// Throws `Error` (usage) if the network takes images of another shape than those of the dataset,
/// or has fewer classes.
void require_match(const graph::Graph& graph, const data::DatasetInfo& dataset);

/// Returns the images per inference batch of each of `ranks` ranks: enough for a high throughput,
/// few enough for little memory compared with training.
std::int64_t evaluation_batch(std::size_t test_images, int ranks);

/// Evaluates the model on the test set: rank r evaluates the images i with i mod N = r, where N is
/// the number of ranks, so that each image is evaluated exactly once.
class Evaluator {
 public:
  /// Compiles the inference plan for `state`. `communicator`: the ranks among which the images are
  /// divided; with a pipeline, those of one stage. `world`: all ranks, which sum the results of the
  /// last stages of a pipeline; may be null without pipeline. All arguments must outlive the
  /// evaluator. Throws `Error` (usage) if the network does not match the dataset.
  Evaluator(const Config& config, const graph::Graph& graph, const data::Dataset& test,
            const backend::Backend& backend, backend::ModelState& state,
            comm::Communicator& communicator, const Pipeline* pipeline = nullptr,
            comm::Communicator* world = nullptr);

  /// Evaluates the test set and returns the results on all ranks. With `BatchNormMode::broadcast`,
  /// first copies the running statistics of rank 0 to all ranks, unless the replicas are
  /// independent (`--reducer none`). All ranks call `continues` between batches; it is collective
  /// and returns the same on all ranks. If it returns false, the evaluation is abandoned and has no
  /// result. Throws `AgreedError`. Collective: all ranks must call this.
  std::optional<Evaluation> run(const std::function<bool()>& continues = [] { return true; });

 private:
  /// Evaluates the images of this rank from the `first` one on, at most a batch, and adds to `sums`
  /// in the order of the members of `Evaluation`.
  void add_batch(std::size_t first, std::array<double, 3>& sums);

  const data::Dataset& test_;
  const backend::Backend& backend_;
  backend::ModelState& state_;
  comm::Communicator& communicator_;
  comm::Communicator& world_;  ///< all ranks that take part
  bool has_stages_;            ///< whether several ranks compute one replica
  BatchNormMode batch_norm_;
  std::size_t batch_;
  std::unique_ptr<backend::Plan> plan_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

}  // namespace lockstep::train
