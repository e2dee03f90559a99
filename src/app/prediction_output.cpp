// Predictions of `lockstep plan` as text and as JSON.

#include "prediction_output.hpp"

#include <fmt/format.h>

#include <utility>

#include "header.hpp"
#include "lockstep/core/format.hpp"

namespace lockstep::app {

namespace {

using train::Interval;

constexpr double micro = 1e-6;

/// Returns "low - high" of a number in the unit `unit`.
std::string range(const Interval& value, double unit, int digits) {
  return fmt::format("{:.{}f} - {:.{}f}", value.low / unit, digits, value.high / unit, digits);
}

std::string describe_step(const Prediction& prediction) {
  const train::StepPrediction& step = prediction.step;
  std::string text = fmt::format(
      "Predicted step of one rank on an {} (not measured): {}, {} images per rank.\n"
      "The bound of a row is the longer of GFLOP at {}FLOP/s and the smallest estimate of its "
      "memory traffic\n"
      "at {}/s; MB is the middle of the estimates. The predicted time includes the efficiencies, "
      "the gaps\n"
      "between kernels and the minimum time of a kernel that are listed below; it is the middle "
      "of the range\n"
      "from optimistic to pessimistic. The model assumes the same efficiency for every engine of "
      "cuDNN.\n\n"
      "{:<48} {:<17} {:>2} {:>7} {:>8} {:>7} {:>9} {:>12}  {:<15} {:>15}\n",
      prediction.models.gpu.product, core::name(prediction.precision), prediction.batch_per_rank,
      core::format_count(prediction.models.gpu.flops_per_second),
      core::format_bytes(prediction.models.gpu.bytes_per_second), "operation", "phase", "n",
      "kernels", "GFLOP", "MB", "bound us", "predicted us", "range us", "bound/predicted");
  for (const auto& row : step.rows) {
    text += fmt::format(
        "{:<48} {:<17} {:>2} {:>7} {:>8.2f} {:>7.1f} {:>9.1f} {:>12.1f}  {:<15} {:>14.0f}%\n",
        row.what, row.phase, row.count, row.kernels, row.flops / 1e9, row.bytes.middle() / 1e6,
        row.bound_seconds / micro, row.seconds.middle() / micro, range(row.seconds, micro, 1),
        100 * row.bound_seconds / row.seconds.middle());
  }
  const double seconds = step.seconds.middle();
  const auto images = static_cast<double>(prediction.batch_per_rank);
  text += fmt::format(
      "\n{:<48} {:<17} {:>2} {:>7} {:>8} {:>7} {:>9.1f} {:>12.1f}  {:<15} {:>14.0f}%\n"
      "\nPredicted: {:.0f} img/s ({:.0f} - {:.0f}) per rank, {:.3f} s ({}) per epoch of {} images "
      "on one rank;\nthe bound is {:.0f} % ({:.0f} - {:.0f} %) of the predicted time.\n",
      "the step", "", "", "", "", "", step.bound_seconds / micro, seconds / micro,
      range(step.seconds, micro, 1), 100 * step.bound_seconds / seconds, images / seconds,
      images / step.seconds.high, images / step.seconds.low,
      static_cast<double>(prediction.training_images) / images * seconds,
      range({step.seconds.low * static_cast<double>(prediction.training_images) / images,
             step.seconds.high * static_cast<double>(prediction.training_images) / images},
            1, 3),
      prediction.training_images, 100 * step.bound_seconds / seconds,
      100 * step.bound_seconds / step.seconds.high, 100 * step.bound_seconds / step.seconds.low);
  return text;
}

std::string describe_scaling(const Prediction& prediction) {
  const bool is_weak = prediction.kind == train::ScalingKind::weak;
  std::string text = fmt::format(
      "\nPredicted {} scaling over the network {} (not measured), in nodes of {}.\n"
      "{:>6} {:>6} {:>20} {:>10} {:>18} {:>18} {:>12} {:>14}\n",
      is_weak ? "weak" : "strong", prediction.models.network->name,
      plural(prediction.models.network->ranks_per_node, "rank"), "ranks", "batch", "step us",
      "img/s", "all-reduce us", "exposed us", "exposed/step", "efficiency");
  for (const auto& point : prediction.scaling) {
    text += fmt::format(
        "{:>6} {:>6} {:>20} {:>10.0f} {:>18} {:>18} {:>11.1f}% {:>14}\n", point.ranks,
        point.batch_per_rank, range(point.seconds, micro, 0), point.images_per_second,
        range(point.all_reduce, micro, 0), range(point.exposed, micro, 0),
        100 * point.exposed.middle() / point.seconds.middle(), range(point.efficiency, 1, 2));
  }
  return text;
}

std::string number(double value, std::string_view unit) {
  if (unit == "FLOP/s") return core::format_count(value) + "FLOP/s";
  if (unit == "bytes/s") return core::format_bytes(value) + "/s";
  if (unit == "bytes") return core::format_bytes(value);
  if (unit == "s") return fmt::format("{:.1f} us", value / micro);
  return fmt::format("{:g}", value);
}

std::string describe_quantities(std::string_view title,
                                std::span<const train::Quantity> quantities) {
  std::string text = fmt::format("\n{}\n", title);
  for (const auto& quantity : quantities) {
    std::string value = number(quantity.value.low, quantity.unit);
    if (quantity.value.low != quantity.value.high)
      value += " - " + number(quantity.value.high, quantity.unit);
    text += fmt::format("  {:<22} {:<28} {}{}\n", quantity.name, value,
                        quantity.is_verified ? "" : "(not verified) ", quantity.source);
  }
  return text;
}

nlohmann::json to_json(const Interval& value) {
  return {{"low", value.low}, {"expected", value.middle()}, {"high", value.high}};
}

nlohmann::json to_json(std::span<const train::Quantity> quantities) {
  auto json = nlohmann::json::array();
  for (const auto& quantity : quantities) {
    json.push_back({{"name", quantity.name},
                    {"low", quantity.value.low},
                    {"high", quantity.value.high},
                    {"unit", quantity.unit},
                    {"source", quantity.source},
                    {"verified", quantity.is_verified}});
  }
  return json;
}

nlohmann::json to_json(const train::ScalingPoint& point) {
  nlohmann::json json = {{"ranks", point.ranks},
                         {"batch_per_rank", point.batch_per_rank},
                         {"seconds", to_json(point.seconds)},
                         {"all_reduce_seconds", to_json(point.all_reduce)},
                         {"exposed_communication_seconds", to_json(point.exposed)},
                         {"efficiency", to_json(point.efficiency)},
                         {"images_per_second", point.images_per_second},
                         {"buckets", nlohmann::json::array()}};
  for (const auto& bucket : point.buckets) {
    json["buckets"].push_back({{"bytes", bucket.bytes},
                               {"ready_seconds", bucket.ready},
                               {"start_seconds", bucket.start},
                               {"end_seconds", bucket.end}});
  }
  return json;
}

}  // namespace

std::optional<PredictionModels> prediction_models(const train::Config& config) {
  if (!config.predict && config.predicted_ranks.empty()) return std::nullopt;
  PredictionModels models{.gpu = train::gpu_model(config.planned_for, config.precision),
                          .network = {}};
  if (!config.predicted_ranks.empty())
    models.network = train::network_model(config.network, models.gpu);
  return models;
}

Prediction predict(const Job& job, PredictionModels models,
                   std::span<const backend::OperationChoice> kernels, int ranks,
                   train::ScalingKind kind) {
  const train::Config& config = job.config;
  Prediction prediction{.models = std::move(models),
                        .precision = config.precision,
                        .ranks = ranks,
                        .batch_per_rank = config.batch_per_rank,
                        .training_images = static_cast<std::int64_t>(job.sizes.train),
                        .step = {},
                        .kind = kind,
                        .scaling = {}};
  const train::GpuModel& gpu = prediction.models.gpu;
  prediction.step = train::predict_step(gpu, config, job.graph, kernels, ranks);
  if (prediction.models.network)
    prediction.scaling = train::predict_scaling(gpu, *prediction.models.network, config, job.graph,
                                                kernels, config.predicted_ranks, kind);
  return prediction;
}

std::string describe(const Prediction& prediction) {
  std::string text = describe_step(prediction);
  if (prediction.models.network) text += describe_scaling(prediction);
  text += describe_quantities("Model of the GPU and of its kernels (pairs: from low to high):",
                              prediction.models.gpu.quantities);
  if (prediction.models.network)
    text += describe_quantities("Model of the network:", prediction.models.network->quantities);
  return text;
}

nlohmann::json to_json(const Prediction& prediction) {
  nlohmann::json json = {{"is_predicted", true},
                         {"gpu", prediction.models.gpu.product},
                         {"flops_per_second", prediction.models.gpu.flops_per_second},
                         {"bytes_per_second", prediction.models.gpu.bytes_per_second},
                         {"batch_per_rank", prediction.batch_per_rank},
                         {"ranks", prediction.ranks},
                         {"bound_seconds", prediction.step.bound_seconds},
                         {"seconds", to_json(prediction.step.seconds)},
                         {"model", to_json(prediction.models.gpu.quantities)},
                         {"operations", nlohmann::json::array()}};
  for (const auto& row : prediction.step.rows) {
    json["operations"].push_back({{"operation", row.what},
                                  {"phase", row.phase},
                                  {"count", row.count},
                                  {"kernels", row.kernels},
                                  {"flops", row.flops},
                                  {"bytes", to_json(row.bytes)},
                                  {"bound_seconds", row.bound_seconds},
                                  {"seconds", to_json(row.seconds)}});
  }
  if (!prediction.models.network) return json;
  json["network"] = {{"name", prediction.models.network->name},
                     {"ranks_per_node", prediction.models.network->ranks_per_node},
                     {"model", to_json(prediction.models.network->quantities)}};
  json["scaling_kind"] = prediction.kind == train::ScalingKind::weak ? "weak" : "strong";
  for (const auto& point : prediction.scaling) json["scaling"].push_back(to_json(point));
  return json;
}

}  // namespace lockstep::app
