// SPDX-License-Identifier: BSD-3-Clause
// lockstep train

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "guard/early_stop.hpp"
#include "header.hpp"
#include "load_data.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/record/output_file.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/profile.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "lockstep/train/plausibility.hpp"
#include "lockstep/train/trainer.hpp"
#include "options/option_table.hpp"
#include "profile_text.hpp"
#include "summary_text.hpp"

namespace lockstep::app {

namespace {

/// Writes what the trainer reports to the terminal and to the run file.
class Reporter final : public train::TrainingListener {
 public:
  explicit Reporter(Console& console) : console_(console) {}

  void expect(std::int64_t epochs, std::optional<record::RunFile>& file) {
    epochs_ = epochs;
    file_ = &file;
  }
  void step_end(const train::CompletedStep& step, const train::StepResult&) override {
    console_.show_progress(step);
  }
  void evaluation_begin() override { console_.show_evaluating(); }
  void epoch_end(record::EpochRecord& epoch) override {
    console_.print_epoch(epoch, epochs_);
    if (file_ != nullptr && *file_) (*file_)->append(epoch);
    last_.epoch = epoch.epoch;
    last_.train_loss = epoch.train_loss;
    last_.test_loss = epoch.test_loss;
  }
  void evaluation_end(const train::CompletedEvaluation& evaluation) override {
    if (!evaluation.is_of_resumed_state) return;  // the line of the epoch has the result
    console_.print(
        fmt::format("epoch {}, trained before the resume: test loss {}, accuracy {:.2f} % ({})\n",
                    evaluation.epoch, core::format_fixed(evaluation.loss, 4),
                    100 * evaluation.accuracy, core::format_seconds(evaluation.seconds)));
  }
  /// Returns the number and the losses of the last epoch; the number is 0 if there was none.
  const record::EpochRecord& last() const { return last_; }

 private:
  Console& console_;
  record::EpochRecord last_;
  std::int64_t epochs_ = 0;
  std::optional<record::RunFile>* file_ = nullptr;
};

std::unique_ptr<train::Pipeline> cut_network(const Job& job, const study::MemoryLimit& limit) {
  core::begin_activity(job.monitor, core::Activity::cutting_network);
  return train::make_pipeline(job.options.training, job.graph, job.communicator, [&] {
    const std::int64_t images = job.options.training.images_per_micro_batch();
    return study::measure_nodes(train::training_options(job.options.training, images), job.graph,
                                *job.backend, limit.bytes);
  });
}

/// Returns the estimated memory, which is within the limit.
study::MemoryEstimate fitting_memory(const Job& job, const study::MemoryLimit& limit,
                                     const train::Pipeline* pipeline) {
  const auto estimate = [&](study::MemoryDetail detail) {
    const auto memory = estimate_memory(job, detail, pipeline);
    train::together(job.communicator, [&] {
      if (memory.limited() <= limit.bytes) return;
      core::fail(
          core::ExitStatus::out_of_memory,
          fmt::format("a batch of {} images per rank needs {} of memory, but the limit is {} per "
                      "rank ({}); use a smaller batch, fewer ranks per host, or a larger "
                      "--memory-limit",
                      job.options.training.batch_per_rank,
                      core::format_bytes(double(memory.limited())),
                      core::format_bytes(double(limit.bytes)), limit.source));
    });
    return memory;
  };
  // Engines for a batch that cannot fit must not be timed.
  if (job.backend->device().available_memory()) estimate(study::MemoryDetail::least);
  return estimate(study::MemoryDetail::planned);
}

/// Loads the images after the check of the outputs, which takes no time.
data::TrainingData load_data_for_output(Job& job) {
  check_output(job);
  return load_data(job);
}

/// The objects of a training, in the order in which they are prepared. Collective: all ranks must
/// construct it.
struct Training {
  explicit Training(const Invocation& invocation) : job(invocation) {}

  Job job;
  const train::Config& config = job.options.training;
  const OutputOptions& output = job.options.output;
  comm::Communicator& communicator = job.communicator;
  const study::MemoryLimit limit = memory_limit(job);
  const std::unique_ptr<train::Pipeline> pipeline = cut_network(job, limit);
  const graph::Graph& graph = pipeline ? pipeline->graph() : job.graph;
  const study::MemoryEstimate memory = fitting_memory(job, limit, pipeline.get());
  const data::TrainingData data = load_data_for_output(job);
  Reporter reporter{job.console};
  const train::TrainingContext context{
      config,       graph,          data,
      *job.backend, communicator,   pipeline ? *pipeline->replicas : communicator,
      job.monitor,  pipeline.get(), experiment_entries(job.options)};
  train::Trainer trainer{context, reporter};
  std::optional<record::RunFile> file{};  ///< on rank 0, if it was opened
};

/// Returns the kernels as text for the run file: "conv1 forward: jit:avx2; ...".
std::string list_kernels(const graph::Graph& graph,
                         const std::vector<backend::OperationChoice>& kernels) {
  std::vector<std::string> texts;
  for (const auto& kernel : kernels) {
    texts.push_back(fmt::format("{} {}: {}", graph.node(kernel.node).name, kernel.phase,
                                kernel.implementation));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

nlohmann::json stages_json(const std::vector<train::StageDescription>& stages) {
  auto json = nlohmann::json::array();
  for (const train::StageDescription& stage : stages) {
    json.push_back({{"first_layer", stage.first_layer},
                    {"last_layer", stage.last_layer},
                    {"parameters", stage.parameters},
                    {"memory_bytes", stage.memory_bytes}});
  }
  return json;
}

void warn_of_plan(Training& training) {
  for (const std::string& warning :
       train::implausible_plan(training.context, training.trainer.description()))
    add_warning(training.job, warning);
}

/// Warns on rank 0 if the results are worse than those of guessing.
void warn_of_results(Training& training) {
  const record::EpochRecord& last = training.reporter.last();
  if (last.epoch == 0) return;
  const std::string warning = train::implausible_result(training.context.network(), last);
  if (warning.empty()) return;
  core::log_warning(warning);
  if (training.file) training.file->add_warning(warning);
}

void open_run_file(Training& training) {
  const train::RunDescription& run = training.trainer.description();
  const train::Config& config = training.config;
  const OutputOptions& output = training.output;
  train::together(training.communicator, [&] {
    if (!training.job.is_first || output.run_file.empty()) return;
    std::vector<std::string> warnings = run.transport_warnings;
    std::ranges::copy(run.warnings, std::back_inserter(warnings));
    record::RunHeader header = run_header(training.job, warnings);
    header.bucket_sizes = run.bucket_sizes;
    record::RunPart target{output.run_file, 1};
    if (run.first_step > 0) {
      target = record::next_part(output.run_file, run.run_id, run.part);
    } else if (config.checkpoint.resume == "auto" && !output.overwrite) {
      record::keep_incomplete(output.run_file, config.checkpoint.directory);
    }
    header.run_id = run.run_id;
    header.part = target.part;
    header.first_step = run.first_step;
    header.steps_per_epoch = run.steps_per_epoch;
    header.images_per_epoch = run.steps_per_epoch * config.global_batch;
    header.environment.emplace_back("all_reduce", describe_all_reduce(run));
    header.environment.emplace_back("transport", run.transport);
    header.environment.emplace_back("data_digest", training.data.digest);
    header.environment.emplace_back("gradient_elements",
                                    fmt::format("{}", training.graph.parameter_elements()));
    header.telemetry_interfaces = run.telemetry_interfaces;
    header.environment.emplace_back("host_energy", run.host_energy_source);
    header.environment.emplace_back("kernels", list_kernels(training.graph, run.kernels));
    if (!run.stages.empty())
      header.environment.emplace_back("pipeline_stages", stages_json(run.stages).dump());
    // A further part of a resumed run never replaces a file, even with --overwrite.
    const bool may_replace = output.overwrite && target.path == output.run_file;
    training.file.emplace(
        target.path, may_replace ? record::OverwriteMode::replace : record::OverwriteMode::refuse,
        header);
  });
}

void write_results(record::RunFile& file, const train::RunSummary& summary) {
  file.write_result("last_test_accuracy", summary.last_test_accuracy);
  file.write_result("best_test_accuracy", summary.best_test_accuracy);
  file.write_result("train_loss", summary.train_loss);
  file.write_result("train_accuracy", summary.train_accuracy);
  file.write_result("peak_memory_bytes", static_cast<double>(summary.peak_memory_bytes));
}

struct Results {
  train::RunSummary summary;
  std::optional<study::ProfileResult> profile;        ///< with --profile, if it was measured
  std::optional<train::AgreedError> profile_failure;  ///< why it was not measured or not written
};

/// Measures the profile of a complete training, and writes it.
void add_profile(Training& training, Results& results) {
  const study::ProfileOptions& options = training.job.options.profile;
  try {
    study::ProfileResult profile =
        study::run_profile(training.context, options, training.trainer.extra_steps());
    train::together(training.communicator, [&] {
      if (training.file) training.file->write_profile(profile.profile);
      if (!profile.trace.empty())
        record::write_text(options.trace, profile.trace, overwrite_mode(training.output),
                           record::OutputKind::trace);
    });
    results.profile = std::move(profile);
  } catch (const train::AgreedError& error) {
    results.profile_failure = error;
  }
}

/// Trains to the end, measures the profile, and finishes the run file. A training whose profile
/// failed is complete.
Results run(Training& training) {
  std::optional<record::RunFile>& file = training.file;
  const train::RunDescription& run = training.trainer.description();
  training.reporter.expect((run.total_steps + run.steps_per_epoch - 1) / run.steps_per_epoch, file);
  Results results;
  try {
    results.summary = training.trainer.run();
  } catch (const core::Error& error) {
    if (file) file->finish_failed(error.what());
    throw;
  }
  const record::RunStatus status = results.summary.status;
  if (file && status == record::RunStatus::preempted && results.summary.steps == 0) {
    file->discard();  // so that the same command can be run again
    file.reset();
  }
  if (results.summary.status == record::RunStatus::complete) warn_of_results(training);
  if (file) write_results(*file, results.summary);
  try {
    if (training.config.times_operations && status == record::RunStatus::complete)
      add_profile(training, results);
  } catch (...) {
    if (file) file->finish(status);
    throw;
  }
  if (file) file->finish(status);
  return results;
}

nlohmann::json results(const Training& training, const Results& run) {
  nlohmann::json json;
  if (run.profile) json["profile"] = to_json(run.profile->profile);
  json["status"] = run.summary.status == record::RunStatus::complete ? "complete" : "preempted";
  json["results"] = to_json(run.summary, training.communicator.size());
  json["results"]["predicted_memory_bytes"] = training.memory.limited();
  json["results"]["output"] =
      training.file ? nlohmann::json(training.file->path().string()) : nlohmann::json();
  const auto& stages = training.trainer.description().stages;
  if (!stages.empty()) json["results"]["pipeline_stages"] = stages_json(stages);
  return json;
}

/// Describes what a run that a signal stopped has saved.
std::string describe_saved(const train::RunSummary& summary, const train::Config& config) {
  if (config.checkpoint.directory.empty())
    return "nothing was saved; --checkpoint-dir DIR with --resume auto saves the state";
  const std::string where = config.checkpoint.directory + "; resume it with --resume auto";
  if (summary.checkpoint_saved) return "a checkpoint is in " + where;
  const std::string reason = fmt::format(
      "no checkpoint was saved, because that would end about {} after the signal and "
      "--grace is {} s",
      core::format_seconds(summary.refused_save_seconds), config.checkpoint.grace_seconds);
  if (summary.kept_step < 0) return reason + "; there is no earlier one";
  return fmt::format("{}; the checkpoint after step {} is kept in {}", reason, summary.kept_step,
                     where);
}

/// Returns whether the run has done all that its options require. The last checkpoint of a complete
/// training is missing if the grace time of a signal did not permit it.
bool is_all_done(const train::RunSummary& summary, const train::Config& config) {
  const bool lacks_checkpoint =
      !config.checkpoint.directory.empty() && summary.stop_signal != 0 && !summary.checkpoint_saved;
  return summary.status == record::RunStatus::complete && !lacks_checkpoint;
}

/// Reports on rank 0 how a signal ended the run, and returns the exit status. Status 75 asks for
/// the same command again, so it requires a checkpoint from which this command resumes.
core::ExitStatus stopped(const train::RunSummary& summary, const train::Config& config,
                         bool is_first) {
  if (is_first) {
    core::log_line(fmt::format("stopped by signal {} after step {}: {}", summary.stop_signal,
                               summary.last_step, describe_saved(summary, config)));
  }
  const bool resumes = summary.checkpoint_saved || summary.kept_step >= 0;
  return resumes ? core::ExitStatus::interrupted : core::stopped_by(summary.stop_signal);
}

/// Warns if the launcher would kill the ranks before a checkpoint is saved.
void warn_of_launcher(const train::Config& config) {
  const bool is_forwarded = std::getenv("LOCKSTEP_SIGNALS_FORWARDED") != nullptr;
  if (is_forwarded || config.checkpoint.directory.empty() || !comm::launcher_kills_ranks()) return;
  core::log_warning(
      "if mpirun is stopped by SIGTERM or Ctrl-C, it kills the ranks within 2 s, before a "
      "checkpoint is saved; send it SIGUSR1 instead, or start it with jobs/forward-signals "
      "mpirun ...");
}

/// Prints what is trained and how.
void print_header(Training& training) {
  const train::RunDescription& run = training.trainer.description();
  std::string text =
      record::build_id() + "\n" + describe_place(training.job) +
      describe_training(training.job, run.steps_per_epoch, run.total_steps, run.bucket_sizes) +
      describe_pipeline(training.config, run.stages) + describe_choices(run) +
      describe_memory(training.memory, training.limit);
  if (run.first_step > 0) text += fmt::format("  resumed after step {}\n", run.first_step);
  training.job.console.print(text + "\n");
}

void print_results(Training& training, const Results& all) {
  const train::RunSummary& summary = all.summary;
  const backend::DeviceKind device = training.config.device.kind;
  const std::string& trace = training.job.options.profile.trace;
  Console& console = training.job.console;
  if (summary.status == record::RunStatus::complete || summary.steps > 0)
    console.print("\n" + describe_summary(summary, training.communicator.size(), device));
  if (all.profile) console.print("\n" + describe(all.profile->profile) + "\n");
  if (all.profile && !trace.empty())
    console.print(fmt::format("The trace is {}; open it in https://ui.perfetto.dev.\n", trace));
  if (training.file)
    console.print(fmt::format("The run file is {}.\n", training.file->path().string()));
  print_json(training.job, results(training, all));
}

/// Reports the results on rank 0, and returns the exit status.
core::ExitStatus report(Training& training, const Results& all) {
  if (training.job.is_first) print_results(training, all);
  if (all.profile_failure) {
    if (training.job.is_first && !core::is_stop(all.profile_failure->status()))
      core::log_line("the training is complete, but its profile failed");
    throw *all.profile_failure;
  }
  if (is_all_done(all.summary, training.config)) return core::ExitStatus::done;
  return stopped(all.summary, training.config, training.job.is_first);
}

}  // namespace

core::ExitStatus train_command(const Invocation& invocation) {
  // Created when the results are complete: from then on, signals have no effect
  // (Watchdog::limit_stop). Declared first, because it outlives the other objects.
  std::optional<core::StopSignal> ignored_signals;
  Training training(invocation);
  print_header(training);
  warn_of_plan(training);
  if (training.output.is_dry_run) return end_dry_run(training.job);
  end_if_signalled(invocation.stopped, training.communicator);
  if (!training.trainer.description().is_finished) {
    if (training.job.is_first) warn_of_launcher(training.config);
    open_run_file(training);
  }
  const Results results = run(training);
  ignored_signals.emplace();
  if (results.summary.last_step == 0) end_if_signalled(invocation.stopped, training.communicator);
  return report(training, results);
}

}  // namespace lockstep::app
