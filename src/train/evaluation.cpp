// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"

namespace lockstep::train {

namespace {

std::string describe(core::ImageShape image, std::int64_t classes) {
  return fmt::format("images of {} x {} x {} in {} classes", image.channels, image.height,
                     image.width, classes);
}

}  // namespace

void require_match(const graph::Graph& graph, const data::DatasetInfo& dataset) {
  if (graph.image() == dataset.image && graph.classes() >= dataset.classes) return;
  core::fail(core::ExitStatus::usage,
             fmt::format("the network {} takes {}, but the dataset {} has {}; use another --model "
                         "or --data",
                         graph.model(), describe(graph.image(), graph.classes()), dataset.name,
                         describe(dataset.image, dataset.classes)));
}

std::int64_t evaluation_batch(std::size_t test_images, int ranks) {
  constexpr std::size_t most = 100;
  const auto count = static_cast<std::size_t>(ranks);
  return static_cast<std::int64_t>(std::min(most, (test_images + count - 1) / count));
}

Evaluator::Evaluator(const Config& config, const graph::Graph& graph, const data::Dataset& test,
                     const backend::Backend& backend, backend::ModelState& state,
                     comm::Communicator& communicator, const Pipeline* pipeline,
                     comm::Communicator* world)
    : test_(test),
      backend_(backend),
      state_(state),
      communicator_(communicator),
      world_(world != nullptr ? *world : communicator),
      has_stages_(world_.size() > communicator.size()),
      // Independent replicas have different weights, for which the statistics of rank 0 would be
      // wrong.
      batch_norm_(config.reducer.kind == comm::ReducerKind::none ? BatchNormMode::local
                                                                 : config.batch_norm),
      batch_(static_cast<std::size_t>(evaluation_batch(test.size(), communicator.size()))),
      images_(batch_ * test.image_bytes()),
      labels_(batch_) {
  require_match(pipeline != nullptr ? pipeline->network : graph, test.info());
  plan_ = make_plan(
      pipeline, graph, backend, state,
      inference_options(config, test.info().normalisation, static_cast<std::int64_t>(batch_)));
}

std::optional<Evaluation> Evaluator::run(const std::function<bool()>& continues) {
  if (batch_norm_ == BatchNormMode::broadcast) {
    backend_.fetch(state_, backend::StatePart::statistics);
    communicator_.broadcast(std::as_writable_bytes(state_.statistics.as<float>()));
    backend_.store(state_, backend::StatePart::statistics);
  }
  std::array<double, 3> sums{};
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const std::size_t own = (test_.size() + ranks - 1) / ranks;  // of rank 0, which has most
  for (std::size_t first = 0; first < own; first += batch_) {
    if (has_stages_) {
      add_batch(first, sums);  // exchanges messages, so a failure must end all ranks at once
    } else {
      together(world_, [&] { add_batch(first, sums); });
    }
    if (first + batch_ < own && !continues()) return std::nullopt;
  }
  world_.sum(std::span<double>(sums));
  return Evaluation{sums[0], static_cast<std::int64_t>(sums[1]),
                    static_cast<std::int64_t>(sums[2])};
}

void Evaluator::add_batch(std::size_t first, std::array<double, 3>& sums) {
  const std::size_t image = test_.image_bytes();
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::size_t sample = first * ranks + static_cast<std::size_t>(communicator_.rank());
  std::size_t count = 0;
  for (; count < batch_ && sample < test_.size(); ++count, sample += ranks) {
    std::ranges::copy(test_.image(sample), std::span(images_).subspan(count * image).begin());
    labels_[count] = test_.labels()[sample];
  }
  if (count == 0) return;
  plan_->upload(std::span(images_).first(count * image), std::span(labels_).first(count));
  plan_->forward();
  const backend::BatchResult result = plan_->result();
  sums[0] += result.loss_sum;
  sums[1] += static_cast<double>(result.correct);
  sums[2] += static_cast<double>(result.images);
}

}  // namespace lockstep::train
