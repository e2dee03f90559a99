// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>
#include <system_error>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optim/update.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/weights.hpp"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

/// Returns the 16 hexadecimal digits of the digest of the data as an integer, which a counter can
/// store.
std::int64_t digest_number(const std::string& digest) {
  std::uint64_t number = 0;
  std::from_chars(digest.data(), digest.data() + digest.size(), number, 16);
  return std::bit_cast<std::int64_t>(number);
}

/// Returns the entries as lines "NAME=VALUE".
std::string to_text(const Entries& entries) {
  std::string text;
  for (const auto& [name, value] : entries) text += fmt::format("{}={}\n", name, value);
  return text;
}

/// Returns the value of `name` in a text of `to_text`; nothing if there is none.
std::optional<std::string> value_in(const std::string& text, const std::string& name) {
  const std::string start = "\n" + name + "=", lines = "\n" + text;
  const std::size_t found = lines.find(start);
  if (found == std::string::npos) return {};
  const std::size_t value = found + start.size();
  return lines.substr(value, lines.find('\n', value) - value);
}

record::Tensor loss_scale_tensor(optim::Kind optimiser, std::span<float> values) {
  const std::size_t size = optimiser == optim::Kind::adamw ? 3 : 2;
  return {"optimizer", "loss_scale", {static_cast<std::int64_t>(size)}, values.first(size)};
}

std::vector<record::Tensor> reducer_tensors(std::span<float> values) {
  if (values.empty()) return {};
  return {{"reducer", "state", {std::ssize(values)}, values}};
}

std::int64_t elements_of(const std::vector<record::Tensor>& tensors) {
  std::int64_t elements = 0;
  for (const record::Tensor& tensor : tensors) elements += std::ssize(tensor.values);
  return elements;
}

std::vector<record::Tensor> joined(std::vector<record::Tensor> tensors,
                                   const std::vector<record::Tensor>& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

/// Returns the tensors that differ between replicas. `own`: those of `weight_tensors` first.
std::vector<record::Tensor> replica_tensors(RankState which, const graph::Graph& graph,
                                            const std::vector<record::Tensor>& own,
                                            const record::Tensor& loss_scale) {
  if (which == RankState::none) return {};
  if (which == RankState::all) return joined(own, {loss_scale});
  const auto first = own.begin() + std::ssize(graph.parameters());
  return {first, first + std::ssize(graph.statistics())};
}

std::vector<record::Tensor> named_by_rank(std::vector<record::Tensor> tensors, int rank) {
  for (record::Tensor& tensor : tensors) {
    tensor.name = tensor.group + "." + tensor.name;
    tensor.group = fmt::format("rank_{}", rank);
  }
  return tensors;
}

std::string text_of(std::string_view name, std::int64_t value) {
  if (name == "seed") return fmt::format("{}", static_cast<std::uint64_t>(value));
  if (name == "optimizer") return std::string(core::name(static_cast<optim::Kind>(value)));
  return fmt::format("{}", value);
}

/// Returns what to do so that the property `name` of a run is `saved`, as in its checkpoint.
std::string option_that_fits(std::string_view name, std::int64_t saved, int replicas) {
  if (name == "seed" || name == "optimizer")
    return fmt::format("use --{} {}", name, text_of(name, saved));
  if (name == "global_batch" && saved % replicas == 0)
    return fmt::format("use --global-batch {} instead of --batch-per-rank", saved);
  if (name == "global_batch")
    return fmt::format("use --global-batch {} and a number of ranks that divides it", saved);
  return "use the same --data, --train-samples, --test-samples and --last-batch";
}

}  // namespace

Checkpoints::Checkpoints(const Config& config, const graph::Graph& graph,
                         backend::ModelState& state, comm::Communicator& data_parallel,
                         comm::Communicator& world, const Pipeline* pipeline,
                         std::span<float> reducer_state, RunIdentity identity)
    : config_(config),
      options_(config.checkpoint),
      state_(state),
      data_parallel_(data_parallel),
      communicator_(world),
      identity_(std::move(identity)),
      has_directory_(!config.checkpoint.directory.empty()),
      loss_scale_tensor_{loss_scale_tensor(config.optimiser.kind, loss_scale_)},
      own_(joined(weight_tensors(graph, state), optimiser_tensors(graph, state))),
      reducer_state_(reducer_tensors(reducer_state)),
      rank_state_(rank_state(config, data_parallel.size())),
      replica_states_(named_by_rank(replica_tensors(rank_state_, graph, own_, loss_scale_tensor_),
                                    data_parallel.rank()),
                      data_parallel),
      reducer_states_(named_by_rank(reducer_state_, data_parallel.rank()), data_parallel),
      stage_states_(
          pipeline != nullptr && data_parallel.rank() == 0 ? own_ : std::vector<record::Tensor>{},
          pipeline != nullptr ? *pipeline->stages : world) {}

RunState Checkpoints::restore() {
  Found found;
  together(communicator_, [&] {
    if (communicator_.rank() == 0) found = restore_on_rank_0();
  });
  comm::broadcast(communicator_, found);
  comm::broadcast(communicator_, loss_scale_);
  comm::broadcast(communicator_, part_);
  comm::broadcast(communicator_, has_directory_);
  comm::broadcast(communicator_, state_.batches_tracked);
  if (found.has_weights) stage_states_.distribute();
  broadcast_state(data_parallel_, state_);
  if (found.has_rank_states) replica_states_.distribute();
  if (found.has_reducer_state) reducer_states_.distribute();
  RunState run = found.run;
  if (found.has_loss_scale) {
    run.loss_scale = backend::LossScale{.scale = loss_scale_[0],
                                        .good_steps = static_cast<std::int32_t>(loss_scale_[1]),
                                        .skipped = static_cast<std::int32_t>(loss_scale_[2])};
  }
  is_saved_ = found.is_saved;
  saved_step_ = run.step;
  saved_evaluated_step_ = run.evaluated_step;
  together(communicator_, [&] {
    if (!writes() || options_.is_read_only) return;
    writer_.emplace(record::CheckpointStore(options_.directory, options_.keep, run_id_,
                                            to_text(identity_.options)),
                    joined(own_, reducer_state_));
    gathered_ =
        joined(stage_states_.copies(), joined(replica_states_.copies(), reducer_states_.copies()));
  });
  return run;
}

Checkpoints::Found Checkpoints::restore_on_rank_0() {
  if (!config_.init_from.empty()) {
    std::vector<record::Tensor> weights = joined(own_, stage_states_.copies());
    std::erase_if(weights, [](const record::Tensor& tensor) { return tensor.group != "state"; });
    record::read_checkpoint(config_.init_from, weights, record::Verify::if_present);
  }
  Found found;
  found.has_weights = !config_.init_from.empty();
  const fs::path directory = options_.directory;
  if (!directory.empty() && !options_.is_read_only) record::create_checkpoint_directory(directory);
  if (!directory.empty() && !options_.trust_directory) record::require_own_checkpoints(directory);
  if (!directory.empty() && !options_.is_read_only) claim_.emplace(directory);
  if (options_.resume == "none") {
    if (!directory.empty() && record::newest_checkpoint(directory)) {
      core::fail(core::ExitStatus::output,
                 fmt::format("--checkpoint-dir {} contains checkpoints of another run, which are "
                             "kept; resume it with --resume auto, or name another directory",
                             directory.string()));
    }
    return found;
  }
  if (options_.resume != "auto") return resume_from(options_.resume);
  const auto latest = record::newest_checkpoint(directory, /*verify=*/false);
  try {
    return latest ? resume_from(*latest) : found;
  } catch (const core::Error&) {
    // Only now, because the search reads each file that it checks.
    const auto newest = record::newest_checkpoint(directory);
    if (newest == latest) throw;
    return newest ? resume_from(*newest) : found;
  }
}

Checkpoints::Found Checkpoints::resume_from(const fs::path& path) {
  const record::CheckpointHeader header = record::skim_checkpoint(path);
  const auto saved_counter = [&](std::string_view name) {
    const auto found =
        std::ranges::find(header.counters, name, &record::Counters::value_type::first);
    if (found != header.counters.end()) return found->second;
    core::fail(
        core::ExitStatus::input,
        fmt::format("{} has no counter '{}': weights alone, not a checkpoint to resume from; "
                    "use --init-from",
                    path.string(), name));
  };
  const std::array<std::pair<std::string_view, std::int64_t>, 5> expected{
      {{"seed", static_cast<std::int64_t>(config_.seed)},
       {"global_batch", config_.global_batch},
       {"steps_per_epoch", identity_.steps_per_epoch},
       {"optimizer", static_cast<std::int64_t>(config_.optimiser.kind)},
       {"data_digest", digest_number(identity_.data_digest)}}};
  for (const auto& [name, value] : expected) {
    const std::int64_t saved = saved_counter(name);
    if (saved == value) continue;
    const std::string fitting = option_that_fits(name, saved, data_parallel_.size());
    core::fail(
        core::ExitStatus::usage,
        fmt::format("{} is of another run: its {} is {}, this run's is {}; {}, or take its "
                    "weights with --init-from",
                    path.string(), name, text_of(name, saved), text_of(name, value), fitting));
  }
  Found found;
  found.has_weights = true;
  found.has_loss_scale = saved_counter("has_loss_scale") != 0;
  const std::int64_t saved_ranks = saved_counter("ranks");
  found.has_rank_states = static_cast<RankState>(saved_counter("rank_state")) == rank_state_ &&
                          saved_ranks == data_parallel_.size() && rank_state_ != RankState::none;
  found.has_reducer_state = saved_counter("reducer_state") == elements_of(reducer_state_) &&
                            saved_ranks == data_parallel_.size() && !reducer_state_.empty();
  std::vector<record::Tensor> tensors = joined(own_, stage_states_.copies());
  if (found.has_reducer_state)
    tensors = joined(tensors, joined(reducer_state_, reducer_states_.copies()));
  if (found.has_loss_scale) tensors.push_back(loss_scale_tensor_);
  if (found.has_rank_states) tensors = joined(tensors, replica_states_.copies());
  record::read_checkpoint(path, tensors, record::Verify::required);
  if (saved_ranks != data_parallel_.size()) {
    warn(fmt::format(
        "{} was written by a run with {} data-parallel ranks, and this one has {}: its results are "
        "not bit-identical to those of an uninterrupted run, because the sums have another order",
        path.string(), saved_ranks, data_parallel_.size()));
  }
  if (rank_state_ != RankState::none && !found.has_rank_states) {
    warn(fmt::format(
        "{} does not contain the {} of each of the {} ranks; all ranks continue with those of rank "
        "0",
        path.string(), rank_state_ == RankState::all ? "replicas" : "batch-norm statistics",
        data_parallel_.size()));
  }
  if (!reducer_state_.empty() && !found.has_reducer_state) {
    warn(fmt::format(
        "{} does not contain the gradients that --reducer {} keeps on each of the {} ranks; they "
        "start at 0",
        path.string(), core::name(config_.reducer.kind), data_parallel_.size()));
  }
  for (const auto& [name, text] : header.texts) {
    if (name == "run_id") run_id_ = text;
    if (name == "options") warn_of_changed_options(path, text);
  }
  part_ = saved_counter("part") + 1;
  state_.batches_tracked = saved_counter("batches_tracked");
  found.run = {.step = saved_counter("step"),
               .evaluated_step = saved_counter("evaluated_step"),
               .last_correct = saved_counter("last_correct"),
               .best_correct = saved_counter("best_correct"),
               .loss_scale = {}};
  if (!options_.directory.empty()) {
    std::error_code ignored;
    found.is_saved =
        fs::equivalent(path, record::checkpoint_path(options_.directory, found.run.step), ignored);
    if (options_.resume != "auto") warn_of_later_checkpoints(path, found.run.step);
  }
  return found;
}

/// Prints a warning that the run file records, because it concerns the comparison of the run.
void Checkpoints::warn(std::string warning) {
  core::log_warning(warning);
  warnings_.push_back(std::move(warning));
}

void Checkpoints::warn_of_changed_options(const fs::path& path, const std::string& saved) {
  if (saved == to_text(identity_.options)) return;
  std::vector<std::string> changes;
  for (const auto& [name, value] : identity_.options) {
    const std::string before = value_in(saved, name).value_or(value);
    if (before != value)
      changes.push_back(fmt::format("{} from '{}' to '{}'", name, before, value));
  }
  if (changes.empty()) return;
  warn(fmt::format(
      "{} was written by another build or with other options: this command changes {}; results or "
      "times can differ from those before, and the report describes all of the run with the "
      "options of its last part",
      path.string(), fmt::join(changes, ", ")));
}

void Checkpoints::warn_of_later_checkpoints(const fs::path& resumed, std::int64_t step) const {
  const auto newest = record::newest_checkpoint(options_.directory);
  std::error_code ignored;
  if (!newest || fs::equivalent(*newest, resumed, ignored)) return;
  core::log_warning(fmt::format(
      "{} has checkpoints that were written after {}, such as {}; the run continues after step {}, "
      "they count as older than its new ones, and --keep {} deletes those of this run first",
      options_.directory, resumed.string(), newest->filename().string(), step, options_.keep));
}

bool Checkpoints::is_due(std::int64_t step) const {
  if (!writes()) return false;
  if (writer_->has_failed()) return true;
  const std::int64_t every = options_.steps;
  if (every > 0) return step / every > saved_step_ / every;
  return core::host_seconds() - saved_at_ >= options_.seconds;
}

void Checkpoints::save(const RunState& run) {
  if (!has_directory_) return;
  if (is_saved_ && saved_step_ == run.step && saved_evaluated_step_ == run.evaluated_step) {
    return;
  }
  wait();
  if (run.loss_scale) {
    loss_scale_ = {run.loss_scale->scale, static_cast<float>(run.loss_scale->good_steps),
                   static_cast<float>(run.loss_scale->skipped)};
  }
  replica_states_.gather();
  reducer_states_.gather();
  stage_states_.gather();
  together(communicator_, [&] {
    if (communicator_.rank() != 0) return;
    std::vector<record::Tensor> others = gathered_;
    if (run.loss_scale) others.push_back(loss_scale_tensor_);
    writer_->start(run.step, others,
                   {{"step", run.step},
                    {"evaluated_step", run.evaluated_step},
                    {"last_correct", run.last_correct},
                    {"best_correct", run.best_correct},
                    {"has_loss_scale", run.loss_scale ? 1 : 0},
                    {"rank_state", static_cast<std::int64_t>(rank_state_)},
                    {"reducer_state", elements_of(reducer_state_)},
                    {"ranks", data_parallel_.size()},
                    {"part", part_},
                    {"batches_tracked", state_.batches_tracked},
                    {"seed", static_cast<std::int64_t>(config_.seed)},
                    {"global_batch", config_.global_batch},
                    {"steps_per_epoch", identity_.steps_per_epoch},
                    {"optimizer", static_cast<std::int64_t>(config_.optimiser.kind)},
                    {"data_digest", digest_number(identity_.data_digest)}});
  });
  is_saved_ = true;
  saved_step_ = run.step;
  saved_evaluated_step_ = run.evaluated_step;
  saved_at_ = core::host_seconds();
}

void Checkpoints::wait() {
  together(communicator_, [&] {
    if (writer_) writer_->wait();
  });
}

bool Checkpoints::wait_until_written() {
  if (!has_directory_) return false;
  wait();
  return is_saved_;
}

double Checkpoints::expected_seconds() const {
  constexpr double bytes_per_second = 100e6;  // of a slow file system; the first save measures it
  if (!writes()) return 0;
  double seconds = writer_->last_seconds();
  if (seconds == 0) {
    const double bytes = sizeof(float) * static_cast<double>(elements_of(own_));
    const int stages = communicator_.size() / data_parallel_.size();
    const int states = rank_state_ == RankState::all ? communicator_.size() : stages;
    seconds = bytes * states / bytes_per_second;
  }
  return writer_->is_saving() ? 2 * seconds : seconds;
}

}  // namespace lockstep::train
