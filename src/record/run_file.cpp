// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/run_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <system_error>

#include "datasets.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/record/output_file.hpp"
#include "run_file_contents.hpp"
#include "schema.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

constexpr hsize_t default_steps_per_chunk = 1024;
/// Upper bound on the growth of HDF5's chunk index in one append, and on the size of a table. The
/// unused part is released when the file is closed.
constexpr std::size_t index_bytes = std::size_t{1} << 20;
/// Reading a few steps needs the memory of whole chunks.
constexpr hsize_t chunk_bytes_at_most = hsize_t{16} << 20;
/// A number of steps whose equal parts are smaller than this, such as a prime number, has chunks of
/// at most `indivisible_chunk_bytes_at_most`.
constexpr hsize_t chunk_bytes_at_least = hsize_t{1} << 20;
constexpr hsize_t indivisible_chunk_bytes_at_most = hsize_t{256} << 20;

/// In the order of `RunStatus`.
constexpr std::array status_names{"complete", "preempted", "failed"};

/// Returns the largest equal part of `steps` rows of `row_bytes` with at most `most_bytes`, and at
/// least 1.
hsize_t equal_part(hsize_t steps, hsize_t row_bytes, hsize_t most_bytes) {
  hsize_t parts = steps * row_bytes / most_bytes + 1;
  while (parts < steps && steps % parts != 0) ++parts;
  return steps / std::min(parts, steps);
}

/// Returns the number of steps per chunk: an epoch, or an equal part of it if a chunk of the widest
/// dataset would otherwise exceed `chunk_bytes_at_most`.
hsize_t steps_per_chunk(hsize_t steps, const RunHeader& header) {
  const hsize_t row_bytes =
      header.ranks.size() * sizeof(double) * std::max(phase_count, header.bucket_sizes.size());
  const hsize_t part = equal_part(steps, row_bytes, chunk_bytes_at_most);
  if (part == steps || part * row_bytes >= chunk_bytes_at_least) return part;
  return equal_part(steps, row_bytes, indivisible_chunk_bytes_at_most);
}

/// Appends the samples of `from` to `to`.
void append_samples(const TelemetrySamples& from, TelemetrySamples& to) {
  const auto append = [](const auto& values, auto& all) {
    all.insert(all.end(), values.begin(), values.end());
  };
  append(from.rank, to.rank);
  append(from.values, to.values);
  append(from.traffic_bytes, to.traffic_bytes);
}

/// Removes the first `count` samples.
void drop_samples(TelemetrySamples& samples, std::size_t count) {
  const std::size_t size = samples.size();
  if (size == 0) return;
  const auto drop = [&](auto& values) {
    const std::size_t dropped = values.size() / size * count;
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(dropped));
  };
  drop(samples.rank);
  drop(samples.values);
  drop(samples.traffic_bytes);
}

std::size_t bytes_of(const TelemetrySamples& samples) {
  return sizeof(double) *
         (2 * samples.size() + samples.values.size() + samples.traffic_bytes.size());
}

}  // namespace

struct RunFile::State {
  fs::path path, partial;
  OverwriteMode mode;
  RunHeader header;
  std::string date_utc = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  Descriptor lock;  ///< open and locked `partial`; empty after `finish`
  hsize_t steps = 0, epochs = 0, points = 0, samples = 0;
  TelemetrySamples pending;     ///< samples that are not in `partial` yet
  bool has_only_header = true;  ///< whether nothing was added to `partial` since its creation
  bool has_failed = false;      ///< whether a write has failed
  std::vector<std::pair<std::string, double>> results;
  std::vector<std::string> warnings;  ///< about the results

  /// Replaces `partial` by a file that `build` writes under another name, because HDF5 cannot open
  /// a file whose creation or change was interrupted. Does not change `partial` on failure.
  void replace(const std::function<hdf5::File(const fs::path&, const Descriptor&)>& build) {
    const fs::path fresh = creating_path(partial);
    std::error_code failed;
    fs::remove(fresh, failed);  // left by a killed run; only the owner of `partial` writes it
    Descriptor fresh_lock = create_in_use(fresh);
    try {
      writing(fresh, [&] { hdf5::close(build(fresh, fresh_lock)); });
      fs::rename(fresh, partial, failed);
      if (failed) fail_output("writing", partial, failed.value());
    } catch (...) {
      fs::remove(fresh, failed);
      throw;
    }
    lock = std::move(fresh_lock);
  }

  /// Replaces `partial` by a file without epochs.
  void create(hsize_t steps_per_chunk) {
    replace([&](const fs::path& fresh, const Descriptor&) {
      hdf5::File file = hdf5::create_file(fresh);
      write_beginning(file, header, date_utc, steps_per_chunk);
      return file;
    });
  }

  /// Replaces `partial` by a copy to which `work` has added groups of at most `bytes`.
  void add(std::size_t bytes, const std::function<void(const hdf5::File&)>& work) {
    core::check(bool{lock}, "a finished run file is written to");
    replace([&](const fs::path& fresh, const Descriptor& descriptor) {
      copy_contents(partial, fresh);
      reserve(descriptor, bytes, fresh);
      hdf5::File file = hdf5::open_file(fresh, hdf5::Access::modify);
      work(file);
      return file;
    });
    has_only_header = false;
  }

  /// Allocates `bytes` on the disk, then calls `work`, which writes to the file. The file is closed
  /// between appends, so any reader can open it and it needs no repair after a kill.
  void write(std::size_t bytes, const std::function<void(const hdf5::File&)>& work) {
    core::check(bool{lock}, "a finished run file is written to");
    has_failed = true;
    reserve(lock, bytes, partial);
    writing(partial, [&] {
      hdf5::File file = hdf5::open_file(partial, hdf5::Access::append);
      work(file);
      hdf5::close(std::move(file));
    });
    has_failed = false;
  }

  /// Writes the group of a table.
  template <class Row>
  void write_table(const std::vector<Row>& rows) {
    constexpr std::size_t bytes_per_row = 1024;  // numbers and texts
    add(rows.size() * (bytes_per_row + header.ranks.size() * sizeof(double)) + index_bytes,
        [&](const hdf5::File& file) { write_rows(file, rows); });
  }

  void complete(const fs::path& copy, RunStatus status, const std::string& failure) const;
};

std::string new_run_id() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::string id = fmt::format("{:%Y%m%dT%H%M%S}.{:06}Z-{}-{}", fmt::gmtime(now.tv_sec),
                               now.tv_nsec / 1000, core::host_name(), ::getpid());
  for (const auto& [variable, label] :
       {std::pair{"SLURM_JOB_ID", "job"}, std::pair{"SLURM_ARRAY_TASK_ID", "task"},
        std::pair{"SLURM_RESTART_COUNT", "restart"}}) {
    if (const char* value = std::getenv(variable)) id += fmt::format("-{}{}", label, value);
  }
  return id;
}

RunFile::RunFile(const fs::path& path, OverwriteMode mode, const RunHeader& header)
    : state_(std::make_unique<State>()) {
  core::check(!header.ranks.empty(), "a run without ranks");
  refuse_existing(path, mode, OutputKind::run_file);
  state_->path = path;
  state_->partial = partial_path(path);
  state_->mode = mode;
  state_->header = header;
  if (header.run_id.empty()) state_->header.run_id = new_run_id();
  keep_stale(state_->partial);
  state_->lock = create_in_use(state_->partial);
  try {
    refuse_existing(path, mode,
                    OutputKind::run_file);  // another run may have created the file in the meantime
    state_->create(default_steps_per_chunk);
  } catch (...) {
    std::error_code ignored;
    fs::remove(state_->partial, ignored);
    throw;
  }
}

RunFile::~RunFile() = default;
RunFile::RunFile(RunFile&&) noexcept = default;
RunFile& RunFile::operator=(RunFile&&) noexcept = default;

void RunFile::append(const EpochRecord& epoch) {
  core::check(bool{state_->lock}, "a finished run file is written to");
  const std::size_t bytes = check_epoch(epoch, state_->header) * sizeof(double);
  const hsize_t steps = epoch.loss.size();
  // Recreate the file with a chunk size that fits this epoch; it contains only the header so far.
  // Later epochs of the same length then never write to the chunks of earlier ones, so a kill
  // during an append cannot damage a complete epoch.
  if (std::exchange(state_->has_only_header, false)) {
    state_->create(steps_per_chunk(steps, state_->header));
  }
  append_samples(epoch.telemetry, state_->pending);
  const std::size_t whole = state_->pending.size() / telemetry_chunk * telemetry_chunk;
  state_->write(bytes + bytes_of(state_->pending) + index_bytes, [&](const hdf5::File& file) {
    write_epoch(file, epoch, state_->steps, state_->epochs);
    write_telemetry(file, state_->pending, whole, state_->samples);
  });
  drop_samples(state_->pending, whole);
  state_->samples += whole;
  state_->steps += steps;
  state_->epochs += 1;
}

void RunFile::append(const LadderRow& point) {
  if (state_->points == 0) state_->add(index_bytes, create_ladder);
  state_->write(index_bytes,
                [&](const hdf5::File& file) { write_point(file, point, state_->points); });
  state_->points += 1;
}

void RunFile::write_allreduce(const std::vector<AllReduceRow>& rows) { state_->write_table(rows); }

void RunFile::write_layers(const std::vector<LayerRow>& rows) { state_->write_table(rows); }

void RunFile::write_stack(const std::vector<StackRow>& rows) { state_->write_table(rows); }

void RunFile::write_profile(const Profile& profile) {
  state_->write_table(profile.operations);
  write_result("profile_steps", static_cast<double>(profile.steps));
  write_result("profile_step_seconds", profile.step_seconds);
  write_result("profile_step_seconds_without", profile.step_seconds_without_profile);
  write_result("profile_flops_per_second", profile.flops_per_second);
  write_result("profile_bytes_per_second", profile.bytes_per_second);
}

void RunFile::write_result(const std::string& name, double value) {
  core::check(run_file_schema().attributes.contains({"/results", name}),
              "a result is not in the schema");
  state_->results.emplace_back(name, value);
}

void RunFile::add_warning(const std::string& warning) { state_->warnings.push_back(warning); }

void RunFile::finish(RunStatus status, const std::string& failure) {
  core::check(bool{state_->lock}, "a run file is finished twice");
  const fs::path copy = finishing_path(state_->partial);
  try {
    state_->complete(copy, status, failure);
    if (state_->mode == OverwriteMode::replace) require_kind(state_->path, OutputKind::run_file);
    rename_synced(copy, state_->path, state_->mode);
  } catch (const core::Error& error) {
    std::error_code ignored;
    fs::remove(copy, ignored);
    core::log_warning(fmt::format("the measurements are in {}", state_->partial.string()));
    throw;
  }
  std::error_code failed;
  if (!fs::remove(state_->partial, failed)) {
    core::log_warning(fmt::format("{} could not be deleted; {} is complete",
                                  state_->partial.string(), state_->path.string()));
  }
  state_->lock.reset();
}

void RunFile::State::complete(const fs::path& copy, RunStatus status,
                              const std::string& failure) const {
  const std::string name = status_names.at(static_cast<std::size_t>(status));
  copy_contents(partial, copy);
  writing(copy, [&] {
    hdf5::File file = hdf5::open_file(copy, hdf5::Access::modify);
    {
      // An open group would delay the writes of H5Fclose until it is closed, and hide their errors.
      const auto group =
          hdf5::own<hdf5::Group>(H5Gopen2(file.get(), "/results", H5P_DEFAULT), "opening a group");
      for (const auto& [result, value] : results) hdf5::set_attribute(group.get(), result, value);
      if (!warnings.empty()) {
        const std::string lines = fmt::format("{}", fmt::join(warnings, "\n"));
        hdf5::set_attribute(group.get(), "warnings", lines);
      }
    }
    write_telemetry(file, pending, pending.size(), samples);
    hdf5::set_attribute(file.get(), "status", name);
    hdf5::set_attribute(file.get(), "failure", failure);
    hdf5::close(std::move(file));
  });
  sync(copy);
  writing(copy, [&] {
    const hdf5::File file = hdf5::open_file(copy, hdf5::Access::read);
    read_through(file);
    if (hdf5::text_attribute(file.get(), "status") != name) {
      throw hdf5::Failure("reading back: the status is not what was written", 0);
    }
  });
}

void RunFile::finish_failed(const std::string& failure) {
  if (state_->has_failed) return;
  try {
    finish(RunStatus::failed, failure);
  } catch (const core::Error& error) {
    core::log_warning(error.what());
  }
}

void RunFile::discard() {
  core::check(bool{state_->lock}, "a finished run file is discarded");
  std::error_code failed;
  fs::remove(state_->partial, failed);
  if (failed) fail_output("deleting", state_->partial, failed.value());
  state_->lock.reset();
}

const std::string& RunFile::run_id() const { return state_->header.run_id; }

const fs::path& RunFile::path() const { return state_->path; }

}  // namespace lockstep::record
