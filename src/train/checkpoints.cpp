#include "checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "lockstep/core/error.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/weights.hpp"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

// The 16 hexadecimal digits of the data's digest, as the integer that a counter can hold.
std::int64_t digest_number(const std::string& digest) {
  std::uint64_t number = 0;
  std::from_chars(digest.data(), digest.data() + digest.size(), number, 16);
  return std::bit_cast<std::int64_t>(number);
}

std::int64_t counter(const record::Counters& counters, std::string_view name,
                     const fs::path& path) {
  for (const auto& [key, value] : counters) {
    if (key == name) return value;
  }
  core::fail(
      core::ExitStatus::input,
      fmt::format("{} has no counter '{}': weights alone, not a checkpoint to resume from; use "
                  "--init-from",
                  path.string(), name));
}

}  // namespace

Checkpoints::Checkpoints(const Config& config, const graph::Graph& graph,
                         backend::ModelState& state, comm::Communicator& communicator,
                         RunIdentity identity)
    : config_(config),
      state_(state),
      communicator_(communicator),
      identity_(std::move(identity)),
      weights_(weight_tensors(graph, state)),
      all_(weights_) {
  const auto momentum = momentum_tensors(graph, state);
  all_.insert(all_.end(), momentum.begin(), momentum.end());
}

Progress Checkpoints::restore() {
  Progress progress;
  together(communicator_, [&] {
    if (communicator_.rank() == 0) progress = restore_on_rank_0();
  });
  broadcast_state(communicator_, state_);
  std::array counters{progress.step, progress.best_correct, state_.batches_tracked};
  communicator_.broadcast(std::as_writable_bytes(std::span(counters)), 0);
  state_.batches_tracked = counters[2];
  saved_step_ = counters[0] > 0 ? counters[0] : -1;
  return {counters[0], counters[1]};
}

Progress Checkpoints::restore_on_rank_0() {
  if (!config_.init_from.empty()) {
    record::read_checkpoint(config_.init_from, weights_, record::Verify::if_present);
  }
  const fs::path directory = config_.checkpoint_dir;
  if (!directory.empty()) prepare_directory();
  if (config_.resume == "none") {
    if (!directory.empty() && fs::exists(directory) && record::newest_checkpoint(directory)) {
      core::fail(
          core::ExitStatus::output,
          fmt::format("--checkpoint-dir {} holds checkpoints of another run, which are kept; "
                      "go on from them with --resume auto, or name another directory",
                      directory.string()));
    }
    return {};
  }
  if (config_.resume != "auto") return resume_from(config_.resume);
  const auto newest = fs::exists(directory) ? record::newest_checkpoint(directory) : std::nullopt;
  return newest ? resume_from(*newest) : Progress{};
}

Progress Checkpoints::resume_from(const fs::path& path) {
  const auto counters = record::read_checkpoint(path, all_, record::Verify::required);
  const std::array<std::pair<std::string_view, std::int64_t>, 4> expected{
      {{"seed", static_cast<std::int64_t>(config_.seed)},
       {"global_batch", config_.global_batch},
       {"steps_per_epoch", identity_.steps_per_epoch},
       {"data_digest", digest_number(identity_.data_digest)}}};
  for (const auto& [name, value] : expected) {
    const std::int64_t saved = counter(counters, name, path);
    if (saved == value) continue;
    core::fail(core::ExitStatus::usage,
               fmt::format("{} is of another run: its {} is {}, this run's is {}; resume with the "
                           "options it was made with, or take its weights with --init-from",
                           path.string(), name, saved, value));
  }
  state_.batches_tracked = counter(counters, "batches_tracked", path);
  return {counter(counters, "step", path), counter(counters, "best_correct", path)};
}

void Checkpoints::prepare_directory() const {
  const fs::path directory = config_.checkpoint_dir;
  std::error_code error;
  if (!config_.dry_run) fs::create_directories(directory, error);
  if (error || (fs::exists(directory) && !fs::is_directory(directory))) {
    core::fail(core::ExitStatus::output,
               fmt::format("--checkpoint-dir {} cannot be made a directory ({}); name another",
                           directory.string(), error ? error.message() : "it is a file"));
  }
}

bool Checkpoints::is_due(std::int64_t step) const {
  if (!writes()) return false;
  if (config_.checkpoint_steps > 0) return step % config_.checkpoint_steps == 0;
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - saved_at_;
  return age.count() >= config_.checkpoint_seconds;
}

bool Checkpoints::save(const Progress& progress) {
  if (config_.checkpoint_dir.empty()) return false;
  if (communicator_.rank() != 0 || saved_step_ == progress.step) return true;
  const fs::path directory = config_.checkpoint_dir;
  record::write_checkpoint(record::checkpoint_path(directory, progress.step), all_,
                           {{"step", progress.step},
                            {"best_correct", progress.best_correct},
                            {"batches_tracked", state_.batches_tracked},
                            {"seed", static_cast<std::int64_t>(config_.seed)},
                            {"global_batch", config_.global_batch},
                            {"steps_per_epoch", identity_.steps_per_epoch},
                            {"data_digest", digest_number(identity_.data_digest)}});
  record::prune_checkpoints(directory, config_.keep);
  saved_step_ = progress.step;
  saved_at_ = std::chrono::steady_clock::now();
  return true;
}

}  // namespace lockstep::train
