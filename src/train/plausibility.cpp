// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/plausibility.hpp"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/graph/graph.hpp"

namespace lockstep::train {

namespace {

// Wu and He, Group Normalization (2018), table 2: the error of ResNet-50 on ImageNet is 23.7 % with
// batch norm over 16 images, 24.8 % over 8, 27.3 % over 4 and 34.7 % over 2.
constexpr std::int64_t least_batch_norm_images = 8;
constexpr double most_repeated = 0.01;  // share of the training images
// The loss of the first epochs often exceeds that of guessing.
constexpr double diverged_factor = 10;

std::string few_images_per_batch_norm(const TrainingContext& context) {
  const Config& config = context.config;
  const std::int64_t replicas = context.data_parallel.size();
  const std::int64_t images = config.images_per_micro_batch();
  const bool is_local = config.batch_norm != BatchNormMode::sync || replicas == 1;
  if (!is_local || context.network().statistics().empty() || images >= least_batch_norm_images)
    return "";
  return fmt::format(
      "batch norm computes its statistics over {} image{} per rank, which lowers the accuracy "
      "below about {}; use {}",
      images, images == 1 ? "" : "s", least_batch_norm_images,
      replicas > 1 ? "--bn sync, or a larger batch" : "a larger batch");
}

std::string endless_warm_up(const Config& config, const RunDescription& run) {
  const double warm_up = config.optimiser.warmup_epochs * static_cast<double>(run.steps_per_epoch);
  if (warm_up <= 0 || std::llround(warm_up) < run.total_steps) return "";
  return fmt::format(
      "--warmup-epochs {}: the run of {} steps ends within the warm-up of {}, so that the learning "
      "rate does not reach its peak; use a shorter warm-up or a longer run",
      config.optimiser.warmup_epochs, run.total_steps, std::llround(warm_up));
}

std::string repeated_images(const TrainingContext& context, const RunDescription& run) {
  const auto images = static_cast<std::int64_t>(context.data.train->size());
  const std::int64_t repeated = run.steps_per_epoch * context.config.global_batch - images;
  if (static_cast<double>(repeated) <= most_repeated * static_cast<double>(images)) return "";
  return fmt::format(
      "--last-batch pad: an epoch trains on {} images, {} of which are repeated, because the last "
      "batch is filled; times of an epoch and images/s include them",
      images + repeated, repeated);
}

double loss_of_guessing(const graph::Graph& network) {
  return std::log(static_cast<double>(network.classes()));
}

std::string above_guessing(const graph::Graph& network) {
  return fmt::format(
      "is above ln({}) = {:.4f}, the loss of guessing all classes with equal probability",
      network.classes(), loss_of_guessing(network));
}

}  // namespace

std::vector<std::string> implausible_plan(const TrainingContext& context,
                                          const RunDescription& run) {
  std::vector<std::string> warnings;
  for (const std::string& warning :
       {few_images_per_batch_norm(context), endless_warm_up(context.config, run),
        repeated_images(context, run)}) {
    if (!warning.empty()) warnings.push_back(warning);
  }
  return warnings;
}

std::string implausible_result(const graph::Graph& network, const record::EpochRecord& last_epoch) {
  const bool is_evaluated = !std::isnan(last_epoch.test_loss);
  const double loss = is_evaluated ? last_epoch.test_loss : last_epoch.train_loss;
  if (!(loss > (is_evaluated ? 1 : diverged_factor) * loss_of_guessing(network))) return "";
  const bool has_statistics = is_evaluated && !network.statistics().empty();
  return fmt::format(
      "the {} loss {:.4g} after epoch {} {}; lower --lr, add --warmup-epochs, or train "
      "more steps{}",
      is_evaluated ? "test" : "training", loss, last_epoch.epoch, above_guessing(network),
      has_statistics ? " (the running statistics of batch norm need about 100)" : "");
}

std::string implausible_test_loss(const graph::Graph& network, double test_loss) {
  if (!(test_loss > loss_of_guessing(network))) return "";
  return fmt::format(
      "the test loss {:.4g} {}; check that the weights were trained, with this "
      "network and this --data",
      test_loss, above_guessing(network));
}

}  // namespace lockstep::train
