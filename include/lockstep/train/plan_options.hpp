#pragma once

#include "lockstep/backend/backend.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Returns whether the gradients of a configuration are reduced over several ranks.
inline backend::GradientReduction gradient_reduction(const Config& config) {
  const bool communicates =
      config.global_batch > config.batch_per_rank && config.reducer != comm::ReducerKind::none;
  return communicates ? backend::GradientReduction::over_replicas
                      : backend::GradientReduction::none;
}

/// Returns the elements of a gradient bucket; 0 if gradients are not communicated.
inline std::size_t bucket_elements(const Config& config) {
  return gradient_reduction(config) == backend::GradientReduction::over_replicas
             ? comm::BucketPartition::bucket_length(config.bucket_bytes())
             : 0;
}

/// Returns the options of the training plan of a rank for a configuration. `normalisation`: that of
/// the dataset. `batch_norm_sum`: null unless `--bn sync`. `rank`, `ranks`: position in the group
/// of ranks that share the global batch; image i of rank r is image i * ranks + r of the global
/// batch (see data::DistributedSampler).
inline backend::PlanOptions training_options(const Config& config,
                                             const core::Normalisation& normalisation,
                                             core::StatisticsAllReduce* batch_norm_sum, int rank,
                                             int ranks) {
  return {.batch = config.batch_per_rank,
          .precision = config.precision,
          .mode = backend::Mode::training,
          .convolution_algorithm = config.convolution_algorithm,
          .batch_norm_fusion = config.batch_norm_fusion,
          .normalisation = normalisation,
          .batch_norm_sum = batch_norm_sum,
          .listener = nullptr,
          .gradient_reduction = gradient_reduction(config),
          .gradient_type = config.gradient_type,
          .gradient_portion = bucket_elements(config),
          .loss_scale = config.loss_scale,
          .max_gradient_norm = config.max_gradient_norm,
          .seed = config.seed,
          .first_image = rank,
          .image_stride = ranks};
}

/// Returns the options of the inference plan of a configuration for `batch` images.
/// `normalisation`: that of the dataset.
inline backend::PlanOptions inference_options(const Config& config,
                                              const core::Normalisation& normalisation,
                                              std::int64_t batch) {
  return {.batch = batch,
          .precision = config.precision,
          .mode = backend::Mode::inference,
          .convolution_algorithm = config.convolution_algorithm,
          .normalisation = normalisation,
          .batch_norm_sum = nullptr,
          .listener = nullptr};
}

}  // namespace lockstep::train
