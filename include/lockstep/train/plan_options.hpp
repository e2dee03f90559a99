// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/backend/backend.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Returns the options of the data, with the seed of the run.
inline data::DataOptions data_options(const Config& config) {
  data::DataOptions options = config.data;
  options.seed = config.seed;
  return options;
}

/// Returns the options of the reducer, with the size of its buckets.
inline comm::ReducerOptions reducer_options(const Config& config) {
  comm::ReducerOptions options = config.reducer;
  options.bucket_bytes = config.bucket_bytes();
  return options;
}

/// Returns the options of a training plan for `images` images. If the global batch has more images,
/// their gradients are added to those of other ranks or of other micro-batches.
inline backend::PlanOptions training_options(const Config& config, std::int64_t images) {
  backend::PlanOptions options = config.plan;
  options.batch = images;
  const bool communicates =
      config.global_batch > images && config.reducer.kind != comm::ReducerKind::none;
  options.gradient_reduction =
      communicates ? backend::GradientReduction::over_replicas : backend::GradientReduction::none;
  if (communicates)
    options.gradient_portion = comm::BucketPartition::bucket_length(config.bucket_bytes());
  options.gradient_type = config.reducer.gradient_type;
  options.optimiser = config.optimiser.kind;
  options.vector_decay = config.optimiser.vector_decay;
  options.seed = config.seed;
  return options;
}

/// Returns the options of the training plan of a rank for its images of a step. `normalisation`:
/// that of the dataset. `batch_norm_sum`: null unless `--bn sync`. `rank`, `ranks`: position in the
/// group of ranks that share the global batch; image i of rank r is image i * ranks + r of the
/// global batch (see data::DistributedSampler).
inline backend::PlanOptions training_options(const Config& config,
                                             const core::Normalisation& normalisation,
                                             core::StatisticsAllReduce* batch_norm_sum, int rank,
                                             int ranks) {
  backend::PlanOptions options = training_options(config, config.batch_per_rank);
  options.normalisation = normalisation;
  options.batch_norm_sum = batch_norm_sum;
  options.first_image = rank;
  options.image_stride = ranks;
  return options;
}

/// Returns the options of the inference plan of a configuration for `batch` images.
/// `normalisation`: that of the dataset.
inline backend::PlanOptions inference_options(const Config& config,
                                              const core::Normalisation& normalisation,
                                              std::int64_t batch) {
  backend::PlanOptions options = config.plan;
  options.batch = batch;
  options.mode = backend::Mode::inference;
  options.normalisation = normalisation;
  return options;
}

}  // namespace lockstep::train
