#pragma once

#include "lockstep/backend/backend.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// What a configuration asks of a training plan. `batch_norm_sum`: null unless `--bn sync`.
inline backend::PlanOptions training_options(const Config& config,
                                             core::StatisticsSum* batch_norm_sum) {
  return {.batch = config.batch_per_rank,
          .precision = config.precision,
          .mode = backend::Mode::training,
          .convolution_algorithm = config.convolution_algorithm,
          .normalisation = {},
          .batch_norm_sum = batch_norm_sum,
          .listener = nullptr};
}

/// What a configuration asks of an inference plan for `batch` images.
inline backend::PlanOptions inference_options(const Config& config, std::int64_t batch) {
  return {.batch = batch,
          .precision = config.precision,
          .mode = backend::Mode::inference,
          .convolution_algorithm = config.convolution_algorithm,
          .normalisation = {},
          .batch_norm_sum = nullptr,
          .listener = nullptr};
}

}  // namespace lockstep::train
