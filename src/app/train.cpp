// lockstep train

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "console.hpp"
#include "header.hpp"
#include "job.hpp"
#include "json_output.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/memory.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::app {

namespace {

/// Passes on what the trainer says: to the person and to the run file.
class Reporter final : public train::Observer {
 public:
  explicit Reporter(Console& console) : console_(console) {}

  void expect(std::int64_t epochs, std::optional<record::RunFile>& file) {
    epochs_ = epochs;
    file_ = &file;
  }
  void step_done(const train::StepReport& report) override { console_.show_progress(report); }
  void evaluating() override { console_.show_evaluating(); }
  void epoch_done(const record::EpochRecord& epoch) override {
    console_.print_epoch(epoch, epochs_);
    if (file_ != nullptr && *file_) (*file_)->append(epoch);
  }

 private:
  Console& console_;
  std::int64_t epochs_ = 0;
  std::optional<record::RunFile>* file_ = nullptr;
};

void require_memory(const Job& job, const train::MemoryEstimate& memory, std::uint64_t limit,
                    comm::Communicator& communicator) {
  train::together(communicator, [&] {
    if (memory.limited() <= limit) return;
    core::fail(core::ExitStatus::out_of_memory,
               fmt::format("a batch of {} per rank needs {}, but a rank may take {}; use a smaller "
                           "batch, fewer ranks per host, or a larger --memory-limit",
                           job.config.batch_per_rank, core::format_bytes(double(memory.limited())),
                           core::format_bytes(double(limit))));
  });
}

/// "conv1 forward: jit:avx2; ..." for whoever reads the run file.
std::string list_kernels(const graph::Graph& graph,
                         const std::vector<backend::OperationChoice>& kernels) {
  std::vector<std::string> texts;
  for (const auto& kernel : kernels) {
    texts.push_back(fmt::format("{} {}: {}", graph.node(kernel.node).name, kernel.phase,
                                kernel.implementation));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void open_run_file(std::optional<record::RunFile>& file, const Job& job,
                   const Invocation& invocation, const train::Trainer& trainer) {
  train::together(invocation.communicator, [&] {
    if (invocation.communicator.rank() != 0 || job.config.output.empty()) return;
    record::RunHeader header = run_header(job, invocation, trainer.bucket_bytes());
    header.environment.emplace_back("all_reduce", describe_all_reduce(trainer));
    header.environment.emplace_back("transport", trainer.transport());
    if (const auto cost = trainer.clock_cost(); cost.with_marks > 0) {
      header.environment.emplace_back("step_seconds_with_clock",
                                      fmt::format("{}", cost.with_marks));
      header.environment.emplace_back("step_seconds_without_clock",
                                      fmt::format("{}", cost.without_marks));
    }
    header.environment.emplace_back("kernels", list_kernels(job.graph, trainer.kernels()));
    file.emplace(job.config.output,
                 job.config.overwrite ? record::Existing::replace : record::Existing::refuse,
                 header);
  });
}

void write_results(record::RunFile& file, const train::RunSummary& summary) {
  file.write_result("last_test_accuracy", summary.last_test_accuracy);
  file.write_result("best_test_accuracy", summary.best_test_accuracy);
  file.write_result("train_loss", summary.train_loss);
  file.write_result("train_accuracy", summary.train_accuracy);
  file.write_result("peak_memory_bytes", static_cast<double>(record::resident_memory().peak));
}

/// Runs to the end; whatever ends it is written into the run file first.
train::RunSummary run(train::Trainer& trainer, std::optional<record::RunFile>& file) {
  try {
    const train::RunSummary summary = trainer.run();
    if (file) {
      write_results(*file, summary);
      file->finish(summary.status);
    }
    return summary;
  } catch (const core::Error& error) {
    // A file that cannot be written is what failed; it cannot say so itself.
    if (file && error.status() != core::ExitStatus::output) {
      file->finish(record::RunStatus::failed, error.what());
    }
    throw;
  }
}

nlohmann::json results(const Job& job, const train::RunSummary& summary,
                       const train::MemoryEstimate& memory) {
  auto json = describe_job(job);
  json["status"] = summary.status == record::RunStatus::complete ? "complete" : "preempted";
  json["results"] = {
      {"steps", summary.steps},
      {"last_step", summary.last_step},
      {"images_per_second", summary.images_per_second},
      {"images_per_second_spread", summary.images_per_second_spread},
      {"images_per_second_per_rank",
       summary.images_per_second / static_cast<double>(job.ranks.size())},
      {"timed_epoch", summary.timed_epoch},
      {"timed_epoch_is_complete", summary.epoch_complete},
      {"epoch_seconds", summary.epoch_seconds},
      {"training_seconds", summary.training_seconds},
      {"exposed_communication_share", summary.exposed_share},
      {"train_loss", summary.train_loss},
      {"train_accuracy", summary.train_accuracy},
      {"last_test_loss", summary.last_test_loss},
      {"last_test_accuracy", summary.last_test_accuracy},
      {"best_test_accuracy", summary.best_test_accuracy},
      {"predicted_memory_bytes", memory.limited()},
      {"peak_memory_bytes", record::resident_memory().peak},
      {"output", job.config.output.empty() ? nlohmann::json() : nlohmann::json(job.config.output)}};
  return json;
}

/// What stopped by a signal says on stderr.
core::ExitStatus stopped(const train::RunSummary& summary, const train::Config& config) {
  const std::string how =
      summary.checkpoint_saved
          ? fmt::format("a checkpoint is in {}; go on with --resume auto", config.checkpoint_dir)
          : "nothing was saved; --checkpoint-dir DIR would";
  core::log_line(fmt::format("stopped by a signal after step {}: {}", summary.last_step, how));
  return core::ExitStatus::interrupted;
}

}  // namespace

core::ExitStatus train_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  const bool is_first = communicator.rank() == 0;
  const Job job = prepare_job(invocation);
  const train::Config& config = job.config;
  Console console(voice_of(job.config, communicator));
  const std::uint64_t limit = memory_limit(job, communicator);
  const auto memory = estimate_memory(job, communicator);
  require_memory(job, memory, limit, communicator);
  check_output(config, communicator);
  const data::TrainingData data = load_data(job, communicator);
  Reporter reporter(console);
  train::Trainer trainer({config, job.graph, data, *job.backend, communicator}, reporter);

  console.print(record::build_id() + "\n" + describe_place(job, communicator) +
                describe_training(job, trainer.steps_per_epoch(), trainer.total_steps()) +
                describe_choices(trainer) + describe_memory(memory, limit));
  if (trainer.first_step() > 0) {
    console.print(fmt::format("  resumed after step {}\n", trainer.first_step()));
  }
  console.print("\n");
  if (config.dry_run) return end_dry_run(job, console, communicator);

  std::optional<record::RunFile> file;
  open_run_file(file, job, invocation, trainer);
  const std::int64_t per_epoch = trainer.steps_per_epoch();
  reporter.expect((trainer.total_steps() + per_epoch - 1) / per_epoch, file);
  const train::RunSummary summary = run(trainer, file);
  if (is_first) {
    console.print("\n" + describe_summary(summary, communicator.size(), device_noun(config)));
    if (!config.output.empty()) console.print(fmt::format("The run file is {}.\n", config.output));
    if (config.json) print_json(results(job, summary, memory));
  }
  if (summary.status == record::RunStatus::complete) return core::ExitStatus::done;
  return is_first ? stopped(summary, config) : core::ExitStatus::interrupted;
}

}  // namespace lockstep::app
