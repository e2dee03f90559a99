// SPDX-License-Identifier: BSD-3-Clause
#include "header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "lockstep/core/format.hpp"
#include "shares.hpp"

namespace lockstep::app {

using core::format_bytes;
using core::format_count;

namespace {

std::string line(std::string_view name, const std::string& value) {
  return fmt::format("  {:<14} {}\n", name, value);
}

std::string hosts(const Job& job) {
  std::map<int, int> counts;
  for (const auto& rank : job.ranks) ++counts[rank.host];
  std::vector<std::string> texts;
  for (const auto& [host, count] : counts) {
    const auto on_host = std::ranges::find(job.ranks, host, &record::RankInfo::host);
    texts.push_back(fmt::format("{} on {}", count, on_host->hostname));
  }
  const std::size_t shown = 8;
  const bool is_long = texts.size() > shown;
  texts.resize(std::min(texts.size(), shown));
  return fmt::format("{} on {} ({}{})", plural(std::ssize(job.ranks), "rank"),
                     plural(std::ssize(counts), "host"), fmt::join(texts, ", "),
                     is_long ? ", ..." : "");
}

std::string binding(const Job& job) {
  std::set<std::string> lists;
  for (const auto& rank : job.ranks) lists.insert(rank.cpu_list);
  std::string threads = plural(job.options.training.device.threads, "thread") + " per rank";
  if (job.threads_reason != "--threads" && job.threads_reason != cores_per_rank)
    threads += fmt::format(" ({})", job.threads_reason);
  if (lists.size() == 1) return fmt::format("{}, processors {}", threads, *lists.begin());
  std::vector<std::string> texts;
  for (const auto& rank : job.ranks) {
    if (texts.size() == 8) break;
    texts.push_back(fmt::format("{}: {}", rank.rank, rank.cpu_list));
  }
  return fmt::format("{}, processors of rank {}{}", threads, fmt::join(texts, "; "),
                     texts.size() < job.ranks.size() ? "; ..." : "");
}

std::string device_lines(const Job& job) {
  const backend::Device& device = job.backend->device();
  return line("device", fmt::format("{}: {}, {}", core::name(job.options.training.device.kind),
                                    device.name(), device.library_versions())) +
         line("binding", binding(job));
}

std::string rate(const train::Config& config) {
  const double peak = config.optimiser.peak(config.global_batch);
  std::string text = fmt::format("{:.6g}", peak);
  if (peak != config.optimiser.learning_rate) {
    text += fmt::format(" (--lr {} scaled {} from batch {} to {})", config.optimiser.learning_rate,
                        core::name(config.optimiser.scaling), config.optimiser.reference_batch,
                        config.global_batch);
  }
  text += fmt::format(", {}", core::name(config.optimiser.schedule));
  if (config.optimiser.warmup_epochs > 0)
    text += fmt::format(", warm-up {} epochs", config.optimiser.warmup_epochs);
  return text;
}

std::string optimiser(const train::Config& config) {
  const optim::Options& options = config.optimiser;
  std::string text;
  switch (options.kind) {
    case optim::Kind::sgd:
      text = fmt::format("SGD, momentum {}{}", options.momentum,
                         options.nesterov ? " (Nesterov)" : "");
      break;
    case optim::Kind::lars:
      text =
          fmt::format("LARS, momentum {}, trust coefficient {}", options.momentum, options.trust);
      break;
    case optim::Kind::adamw:
      text = fmt::format("AdamW, beta {} and {}", optim::AdamW::beta1, optim::AdamW::beta2);
      break;
  }
  text += fmt::format(", weight decay {}", options.weight_decay);
  if (options.vector_decay == optim::VectorDecay::off) text += " except batch norm and biases";
  if (config.plan.max_gradient_norm > 0)
    text += fmt::format(", gradient norm at most {}", config.plan.max_gradient_norm);
  return text + fmt::format(", seed {}", config.seed);
}

std::string communication(const Job& job, std::span<const std::size_t> bucket_sizes) {
  const train::Config& config = job.options.training;
  if (config.reducer.kind == comm::ReducerKind::none) {
    return "none: independent replicas, the baseline without communication";
  }
  if (bucket_sizes.empty() && job.ranks.size() > 1)
    return "gradients of each stage among its replicas";
  if (bucket_sizes.empty()) return "none: there is one rank";
  const auto bytes = std::accumulate(bucket_sizes.begin(), bucket_sizes.end(), std::size_t{0});
  const bool is_float = bytes == job.graph.parameter_elements() * sizeof(float);
  const std::string note = is_float && config.reducer.gradient_type != core::DataType::float32
                               ? fmt::format(", not {} because this all-reduce does not convert",
                                             core::name(config.reducer.gradient_type))
                               : "";
  return fmt::format("{}, {} of {} gradients per rank and step in {}{}{}",
                     core::name(config.reducer.kind), format_bytes(double(bytes)),
                     is_float ? "fp32" : core::name(config.reducer.gradient_type),
                     plural(std::ssize(bucket_sizes), "bucket"), note,
                     job.graph.statistics().empty()
                         ? ""
                         : fmt::format("; batch norm {}", core::name(config.batch_norm)));
}

}  // namespace

std::string plural(std::int64_t count, std::string_view noun) {
  const std::string_view ending = noun.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : ending);
}

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  for (auto at = std::ssize(digits) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string describe_all_reduce(const train::RunDescription& run) {
  if (run.bucket_sizes.empty()) return "none";
  const comm::AllReduceChoice& choice = run.all_reduce;
  if (choice.algorithm == comm::AllReduceAlgorithm::automatic)
    return run.transport;  // chooses itself
  std::string text(choice.algorithm.name());
  std::vector<std::string> others;
  for (const auto& [algorithm, seconds] : choice.timed) {
    if (algorithm == choice.algorithm) {
      text +=
          fmt::format(": {} in {:.2f} ms", format_bytes(double(choice.timed_bytes)), seconds * 1e3);
    } else {
      others.push_back(fmt::format("{} {:.2f} ms", algorithm.name(), seconds * 1e3));
    }
  }
  return others.empty() ? text : fmt::format("{} ({})", text, fmt::join(others, ", "));
}

std::string describe_choices(const train::RunDescription& run) {
  std::map<std::string, int> counts;
  for (const auto& kernel : run.kernels) {
    if (!kernel.maps) ++counts[kernel.implementation];  // only batch norm states its maps
  }
  std::vector<std::string> texts;
  for (const auto& [implementation, count] : counts)
    texts.push_back(fmt::format("{} by {}", count, implementation));
  return line("all-reduce", describe_all_reduce(run)) +
         line("convolutions", fmt::format("{}", fmt::join(texts, ", "))) +
         line("host energy", run.host_energy_source);
}

std::string describe_place(const Job& job) {
  const train::Config& config = job.options.training;
  return line("ranks", hosts(job)) + device_lines(job) +
         line("MPI", job.communicator.library_version()) +
         line("model",
              fmt::format("{}, {} parameters, {} classes, {}FLOP per image forward, {}FLOP "
                          "in training",
                          job.options.network.model,
                          grouped(static_cast<std::int64_t>(job.graph.parameter_count())),
                          job.graph.classes(), format_count(job.graph.total_cost().forward_flops),
                          format_count(job.graph.total_cost().training_flops()))) +
         line("data", fmt::format("{}, {} training and {} test images", config.data.source,
                                  grouped(static_cast<std::int64_t>(job.sizes.train)),
                                  grouped(static_cast<std::int64_t>(job.sizes.test)))) +
         line("precision", std::string(core::name(config.plan.precision)));
}

std::string describe_device(const Job& job, std::uint64_t limit) {
  const train::Config& config = job.options.training;
  return device_lines(job) + line("precision", std::string(core::name(config.plan.precision))) +
         line("memory limit", format_bytes(double(limit)));
}

std::string describe_training(const Job& job, std::int64_t steps_per_epoch,
                              std::int64_t total_steps, std::span<const std::size_t> bucket_sizes) {
  const train::Config& config = job.options.training;
  const std::string& run_file = job.options.output.run_file;
  const std::int64_t parts = config.pipeline.micro_batches;
  const std::string accumulation =
      parts == 1 ? ""
                 : fmt::format(" (gradients accumulated over {} of {})",
                               plural(parts, "micro-batch"), config.images_per_micro_batch());
  return line("batch", fmt::format("{} per rank{}, {} in all; {} per epoch, {} in this run",
                                   config.batch_per_rank, accumulation, config.global_batch,
                                   plural(steps_per_epoch, "step"), plural(total_steps, "step"))) +
         line("augmentation", std::string(core::name(config.data.augmentation))) +
         line("learning rate", rate(config)) + line("optimiser", optimiser(config)) +
         line("communication", communication(job, bucket_sizes)) +
         line("checkpoints", config.checkpoint.directory.empty()
                                 ? "none (--checkpoint-dir DIR writes checkpoints)"
                                 : config.checkpoint.directory) +
         line("run file", run_file.empty() ? "none (--output FILE.h5 writes one)" : run_file);
}

std::string describe_pipeline(const train::Config& config,
                              const std::vector<train::StageDescription>& stages) {
  if (stages.empty()) return "";
  std::string text = line(
      "pipeline",
      fmt::format(
          "{}, {} of {} per step, {}; ideal bubble {:.1f} %", plural(std::ssize(stages), "stage"),
          plural(config.pipeline.micro_batches, "micro-batch"),
          plural(config.images_per_micro_batch(), "image"), core::name(config.pipeline.schedule),
          100 * train::ideal_bubble(config.pipeline.stages, config.pipeline.micro_batches)));
  for (std::size_t i = 0; i < stages.size(); ++i) {
    text += fmt::format("    stage {:<8} {} to {}, {} parameters, {}\n", i, stages[i].first_layer,
                        stages[i].last_layer, grouped(stages[i].parameters),
                        format_bytes(double(stages[i].memory_bytes)));
  }
  return text;
}

std::string describe_memory(const study::MemoryEstimate& memory, const study::MemoryLimit& limit) {
  std::string text =
      line("memory",
           fmt::format("{} per rank (estimated peak); {}{}", format_bytes(double(memory.limited())),
                       limit.bytes == study::MemoryLimit{}.bytes
                           ? limit.source
                           : fmt::format("the limit is {} ({})", format_bytes(double(limit.bytes)),
                                         limit.source),
                       memory.has_device ? ", both on the device" : ""));
  for (const auto& [name, bytes] :
       {std::pair{"process", memory.process}, std::pair{"images", memory.data},
        std::pair{"loader", memory.loader}, std::pair{"model state", memory.state},
        std::pair{"activations", memory.activations}, std::pair{"weights", memory.weights},
        std::pair{"workspace", memory.workspace}, std::pair{"evaluation", memory.evaluation},
        std::pair{"checkpoint", memory.checkpoint},
        std::pair{"communication", memory.communication},
        std::pair{"step records", memory.records}}) {
    if (bytes > 0) text += fmt::format("    {:<14} {:>10}\n", name, format_bytes(double(bytes)));
  }
  return text;
}

}  // namespace lockstep::app
