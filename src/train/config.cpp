#include "lockstep/train/config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "lockstep/core/error.hpp"
#include "lockstep/train/choices.hpp"

namespace lockstep::train {

namespace {

void require(bool condition, const std::string& message) {
  if (!condition) core::fail(core::ExitStatus::usage, message);
}

void require_at_least(std::string_view option, double value, double least) {
  require(std::isfinite(value) && value >= least,
          fmt::format("--{} {}: must be at least {}", option, value, least));
}

void check_ranges(const Config& config) {
  require_at_least("classes", double(config.classes), 0);
  require_at_least("train-samples", double(config.train_samples), 0);
  require_at_least("test-samples", double(config.test_samples), 0);
  require_at_least("loader-threads", config.loader_threads, 0);
  require_at_least("threads", config.threads, 0);
  require_at_least("batch-per-rank", double(config.batch_per_rank), 0);
  require_at_least("global-batch", double(config.global_batch), 0);
  require_at_least("epochs", double(config.epochs), 0);
  require_at_least("steps", double(config.steps), 0);
  require_at_least("evaluate-every", double(config.evaluate_every), -1);
  require_at_least("lr", config.learning_rate, 0);
  require_at_least("weight-decay", config.weight_decay, 0);
  require_at_least("warmup-epochs", config.warmup_epochs, 0);
  require_at_least("lr-reference-batch", double(config.reference_batch), 1);
  require_at_least("loss-scale", config.loss_scale, 0);
  require_at_least("bucket-mib", config.bucket_mib, 4.0 / (1 << 20));
  require(config.bucket_mib <= 1 << 20,
          fmt::format("--bucket-mib {}: must be at most {}", config.bucket_mib, 1 << 20));
  require_at_least("link-gbit", config.link_gbit, 0);
  require(config.watchdog_seconds >= 0 && config.watchdog_seconds <= Config::most_watchdog_seconds,
          fmt::format("--watchdog {}: must be from 0 (off) to {} seconds", config.watchdog_seconds,
                      Config::most_watchdog_seconds));
  require_at_least("keep", config.keep, 1);
  require_at_least("ladder-start", double(config.ladder_start), 1);
  require_at_least("repeats", config.repeats, 1);
  require_at_least("min-bytes", double(config.min_bytes), sizeof(float));
  require(config.momentum >= 0 && config.momentum < 1,
          fmt::format("--momentum {}: must be from 0 to below 1", config.momentum));
  require(config.label_smoothing >= 0 && config.label_smoothing < 1,
          fmt::format("--label-smoothing {}: must be from 0 to below 1", config.label_smoothing));
  require(!config.nesterov || config.momentum > 0, "--nesterov needs a --momentum above 0");
}

void check_combinations(const Config& config) {
  require(
      config.gradient_type != core::DataType::float16 || config.precision == core::Precision::fp16,
      "--gradient-dtype fp16: sums of fp16 gradients overflow without the loss scaling of "
      "--precision fp16; use that, or fp32 or bf16");
  require(config.loss_scale == 0 || config.precision == core::Precision::fp16,
          "--loss-scale is of --precision fp16; other precisions need none");
  require(
      config.reducer != comm::ReducerKind::none || config.batch_norm != BatchNormMode::sync,
      "--reducer none sends nothing, --bn sync sends statistics every step; choose one of them");
  require(config.epochs == 0 || config.steps == 0 || config.command == "ladder",
          "--epochs and --steps were both given; give one of them");
  require(config.resume != "auto" || !config.checkpoint_dir.empty(),
          "--resume auto needs --checkpoint-dir DIR to look in");
  require(config.resume == "none" || config.init_from.empty(),
          "--init-from and --resume were both given; a resumed run has its weights already");
  require(config.min_bytes <= config.max_bytes, "--min-bytes is larger than --max-bytes");
}

void resolve_batch(Config& config, int ranks) {
  const bool has_local = config.batch_per_rank > 0;
  const bool has_global = config.global_batch > 0;
  require(
      has_local != has_global,
      fmt::format("{}; give exactly one of --batch-per-rank B (images per rank: weak scaling) and "
                  "--global-batch B (over all ranks: strong scaling)",
                  has_local ? "both batches were given" : "no batch was given"));
  if (has_local) {
    config.global_batch = config.batch_per_rank * ranks;
    return;
  }
  require(config.global_batch % ranks == 0,
          fmt::format("--global-batch {} cannot be shared out among {} ranks; use a multiple of {}",
                      config.global_batch, ranks, ranks));
  config.batch_per_rank = config.global_batch / ranks;
}

template <class T>
std::string text(const T& value) {
  if constexpr (requires { choices(value); }) {
    return std::string(choice_name(value));
  } else {
    return fmt::format("{}", value);
  }
}

std::string checkpoint_every(const Config& config) {
  return config.checkpoint_steps > 0 ? fmt::format("{}-steps", config.checkpoint_steps)
                                     : fmt::format("{}s", config.checkpoint_seconds);
}

std::string evaluate_every(const Config& config) {
  return config.evaluate_every < 0 ? "never" : fmt::format("{}", config.evaluate_every);
}

std::string loss_scale(const Config& config) {
  return config.loss_scale == 0 ? "dynamic" : fmt::format("{}", config.loss_scale);
}

}  // namespace

double Config::peak_learning_rate() const {
  return optim::scaled_rate(learning_rate, scaling, global_batch, reference_batch);
}

Config resolve(Config config, int ranks) {
  check_ranges(config);
  check_combinations(config);
  const bool trains = config.command == "train" || config.command == "plan";
  if (trains) resolve_batch(config, ranks);
  if (config.epochs == 0 && config.steps == 0) config.epochs = 2;
  return config;
}

void require_enough_images(const Config& config, std::size_t training_images) {
  if (training_images >= static_cast<std::size_t>(config.global_batch)) return;
  core::fail(core::ExitStatus::input,
             fmt::format("a global batch of {} images is more than the {} training images there "
                         "are; use a smaller batch or fewer ranks",
                         config.global_batch, training_images));
}

Entries entries(const Config& config) {
  return {
      {"command", config.command},
      {"model", config.model},
      {"classes", text(config.classes)},
      {"label-smoothing", text(config.label_smoothing)},
      {"init-from", config.init_from},
      {"data", config.data},
      {"train-samples", text(config.train_samples)},
      {"test-samples", text(config.test_samples)},
      {"augment", text(config.augment)},
      {"last-batch", text(config.last_batch)},
      {"loader-threads", text(config.loader_threads)},
      {"data-residency", text(config.data_residency)},
      {"seed", text(config.seed)},
      {"device", text(config.device)},
      {"precision", text(config.precision)},
      {"loss-scale", loss_scale(config)},
      {"threads", text(config.threads)},
      {"conv-algorithm", text(config.convolution_algorithm)},
      {"bn-fusion", text(config.batch_norm_fusion)},
      {"memory-limit", text(config.memory_limit)},
      {"deterministic", text(config.deterministic)},
      {"batch-per-rank", text(config.batch_per_rank)},
      {"global-batch", text(config.global_batch)},
      {"epochs", text(config.epochs)},
      {"steps", text(config.steps)},
      {"evaluate-every", evaluate_every(config)},
      {"lr", text(config.learning_rate)},
      {"momentum", text(config.momentum)},
      {"weight-decay", text(config.weight_decay)},
      {"nesterov", text(config.nesterov)},
      {"lr-schedule", text(config.schedule)},
      {"warmup-epochs", text(config.warmup_epochs)},
      {"lr-scaling", text(config.scaling)},
      {"lr-reference-batch", text(config.reference_batch)},
      {"reducer", text(config.reducer)},
      {"all-reduce", text(config.all_reduce)},
      {"transport", text(config.transport)},
      {"allow-gpu-sharing", text(config.allow_gpu_sharing)},
      {"bucket-mib", text(config.bucket_mib)},
      {"gradient-dtype", text(config.gradient_type)},
      {"link-gbit", text(config.link_gbit)},
      {"bn", text(config.batch_norm)},
      {"watchdog", text(config.watchdog_seconds)},
      {"resume", config.resume},
      {"checkpoint-dir", config.checkpoint_dir},
      {"checkpoint-every", checkpoint_every(config)},
      {"keep", text(config.keep)},
      {"output", config.output},
      {"overwrite", text(config.overwrite)},
      {"json", text(config.json)},
      {"quiet", text(config.quiet)},
      {"dry-run", text(config.dry_run)},
      {"measure", text(config.measure)},
      {"for", config.planned_for},
      {"write-device-description", config.device_description},
      {"ladder-start", text(config.ladder_start)},
      {"min-bytes", text(config.min_bytes)},
      {"max-bytes", text(config.max_bytes)},
      {"repeats", text(config.repeats)},
  };
}

Entries shared_entries(const Config& config) {
  // Paths of data may differ between hosts: the digests of the data are compared instead. Only rank
  // 0 reads weights and checkpoints.
  static const std::set<std::string> may_differ{"data",           "init-from", "resume",
                                                "checkpoint-dir", "output",    "json",
                                                "quiet",          "threads",   "loader-threads"};
  Entries shared;
  for (auto& entry : entries(config)) {
    if (!may_differ.contains(entry.first)) shared.push_back(std::move(entry));
  }
  return shared;
}

}  // namespace lockstep::train
