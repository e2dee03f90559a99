// SPDX-License-Identifier: BSD-3-Clause
#include "summary_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/core/format.hpp"
#include "lockstep/core/meter/process_meter.hpp"

namespace lockstep::app {

using core::format_fixed;
using core::format_seconds;

namespace {

std::string describe_test_accuracy(const train::RunSummary& summary) {
  if (!std::isfinite(summary.last_test_accuracy)) return "";
  return fmt::format("Final test accuracy {:.2f} % (best {:.2f} %).\n",
                     100 * summary.last_test_accuracy, 100 * summary.best_test_accuracy);
}

/// Describes which steps were timed, as part of a sentence.
std::string describe_window(const train::RunSummary& summary) {
  if (!summary.epoch_complete) {
    return fmt::format("scaled from {} of {} steps of epoch {}", summary.timed_steps,
                       summary.steps_per_epoch, summary.timed_epoch);
  }
  if (summary.skipped_steps == 0) {
    return fmt::format("epoch {}, all {} steps", summary.timed_epoch, summary.timed_steps);
  }
  return fmt::format("epoch {} without its first {} of {} steps", summary.timed_epoch,
                     summary.skipped_steps, summary.steps_per_epoch);
}

}  // namespace

std::string describe_summary(const train::RunSummary& summary, int ranks,
                             backend::DeviceKind kind) {
  if (summary.steps == 0) {
    return fmt::format(
        "Nothing is left to train: the checkpoint is after step {}, the last one.\n{}",
        summary.last_step, describe_test_accuracy(summary));
  }
  const char* device = kind == backend::DeviceKind::cuda ? "GPU" : "CPU rank";
  std::string text =
      fmt::format("Img/sec per {}: {:.1f}\nTotal img/sec on {} {}(s): {:.1f}\n", device,
                  summary.images_per_second / ranks, ranks, device, summary.images_per_second);
  text +=
      fmt::format("An epoch takes {}, of which {} are training without waiting for data ({}).\n",
                  format_seconds(summary.epoch_seconds), format_seconds(summary.training_seconds),
                  describe_window(summary));
  if (ranks > 1) {
    text += fmt::format("Exposed communication is {} % of the epoch.\n",
                        format_fixed(100 * summary.exposed_share, 1));
  }
  if (summary.lacking_share >= core::lacking_limit) {
    text += fmt::format(
        "Rank {} lacked a processor for {} % of the epoch (other processes, more threads than "
        "processors, a CPU quota, or a hypervisor): these times do not describe the program.\n",
        summary.lacking_rank, format_fixed(100 * summary.lacking_share, 1));
  }
  text += fmt::format("Final training loss {}, training accuracy {:.2f} %.\n",
                      format_fixed(summary.train_loss, 4), 100 * summary.train_accuracy);
  return text + describe_test_accuracy(summary);
}

nlohmann::json to_json(const train::RunSummary& summary, int ranks) {
  return {{"steps", summary.steps},
          {"last_step", summary.last_step},
          {"images_per_second", summary.images_per_second},
          {"images_per_second_per_rank", summary.images_per_second / ranks},
          {"timed_epoch", summary.timed_epoch},
          {"timed_steps", summary.timed_steps},
          {"steps_per_epoch", summary.steps_per_epoch},
          {"images_per_epoch", summary.images_per_epoch},
          {"is_extrapolated", !summary.epoch_complete},
          {"timed_epoch_is_complete", summary.epoch_complete},
          {"epoch_seconds", summary.epoch_seconds},
          {"training_seconds", summary.training_seconds},
          {"exposed_communication_share", summary.exposed_share},
          {"lacking_processor_share", summary.lacking_share},
          {"train_loss", summary.train_loss},
          {"train_accuracy", summary.train_accuracy},
          {"last_test_loss", summary.last_test_loss},
          {"last_test_accuracy", summary.last_test_accuracy},
          {"best_test_accuracy", summary.best_test_accuracy},
          {"peak_memory_bytes", summary.peak_memory_bytes}};
}

}  // namespace lockstep::app
