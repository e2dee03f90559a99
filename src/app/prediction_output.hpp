#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job.hpp"
#include "lockstep/train/prediction.hpp"

namespace lockstep::app {

/// Models of the target GPU and of the network between the ranks of `--ranks`.
struct PredictionModels {
  train::GpuModel gpu;
  std::optional<train::NetworkModel> network;  ///< nothing without `--ranks`
};

/// Returns the models for `--predict` or `--ranks`; nothing if no prediction is requested. Throws
/// `Error` as `gpu_model` and `network_model` do.
std::optional<PredictionModels> prediction_models(const train::Config& config);

/// The predicted step on the target GPU of `lockstep plan`, and its scaling.
struct Prediction {
  PredictionModels models;
  core::Precision precision{};
  int ranks = 1;  ///< ranks of the job whose step is predicted
  std::int64_t batch_per_rank = 0;
  std::int64_t training_images = 0;  ///< images of an epoch of the job
  train::StepPrediction step;
  train::ScalingKind kind = train::ScalingKind::weak;
  std::vector<train::ScalingPoint> scaling;  ///< empty without `--ranks`
};

/// Predicts the step of `job` on its target GPU. `kernels`: the choices of the plan. Throws `Error`
/// as the functions of train/prediction.hpp do.
Prediction predict(const Job& job, PredictionModels models,
                   std::span<const backend::OperationChoice> kernels, int ranks,
                   train::ScalingKind kind);

std::string describe(const Prediction& prediction);
nlohmann::json to_json(const Prediction& prediction);

}  // namespace lockstep::app
