#include "run_file_contents.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "build.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/phase.hpp"
#include "run_file_layout.hpp"

namespace lockstep::record {

namespace {

constexpr std::int64_t format_version = 2;

template <class Row, class Get>
auto column_of(const std::vector<Row>& rows, Get get) {
  std::vector<std::decay_t<decltype(get(rows.front()))>> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(get(row));
  return values;
}

std::vector<std::int64_t> counted(std::size_t size, std::int64_t first) {
  std::vector<std::int64_t> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void create_group(const hdf5::File& file, const char* name, const Attributes& attributes) {
  const auto group = hdf5::own<hdf5::Group>(
      H5Gcreate2(file.get(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "creating a group");
  for (const auto& [key, value] : attributes) hdf5::set_attribute(group.get(), key, value);
}

void write_ranks(const hdf5::File& file, const std::vector<RankInfo>& ranks) {
  const auto rank = column_of(ranks, [](auto& r) { return std::int64_t{r.rank}; });
  write_column(file, "/rank", rank);
  write_column(file, "/ranks/rank", rank);
  write_column(file, "/ranks/local_rank",
               column_of(ranks, [](auto& r) { return std::int64_t{r.local_rank}; }));
  write_column(file, "/ranks/host", column_of(ranks, [](auto& r) { return std::int64_t{r.host}; }));
  write_column(file, "/ranks/hostname", column_of(ranks, [](auto& r) { return r.hostname; }));
  write_column(file, "/ranks/cpu_list", column_of(ranks, [](auto& r) { return r.cpu_list; }));
  write_column(file, "/ranks/device_name", column_of(ranks, [](auto& r) { return r.device_name; }));
  write_column(file, "/ranks/device_uuid", column_of(ranks, [](auto& r) { return r.device_uuid; }));
  write_column(file, "/ranks/pci_bus_id", column_of(ranks, [](auto& r) { return r.pci_bus_id; }));
  write_column(file, "/ranks/memory_bytes",
               column_of(ranks, [](auto& r) { return r.memory_bytes; }));
}

}  // namespace

void write_beginning(const hdf5::File& file, const RunHeader& header, const RunIdentity& identity,
                     hsize_t steps_per_chunk) {
  const Build& build = this_build();
  const auto set = [&](const char* name, const auto& value) {
    hdf5::set_attribute(file.get(), name, value);
  };
  set("format", std::string("lockstep-run"));
  set("format_version", format_version);
  set("software_version", std::string(build.version));
  set("git_commit", std::string(build.git_commit));
  set("git_dirty", std::int64_t{build.git_dirty});
  set("date_utc", identity.date_utc);
  set("command_line", header.command_line);
  set("run_id", identity.run_id);
  set("part", header.part);
  set("first_step", header.first_step);
  set("steps_per_epoch", header.steps_per_epoch);
  set("images_per_epoch", header.images_per_epoch);
  set("status", std::string("running"));
  set("failure", std::string());

  create_group(file, "/config", header.config);
  create_group(file, "/environment", header.environment);
  for (const char* name : {"/ranks", "/steps", "/epochs", "/buckets", "/results"}) {
    create_group(file, name, {});
  }
  const hsize_t ranks = header.ranks.size();
  const hsize_t buckets = header.bucket_bytes.size();
  const Dimensions dimensions{{"step", 0, steps_per_chunk, true},
                              {"epoch", 0, 1, true},
                              {"rank", ranks, ranks, false},
                              {"phase", phase_count, phase_count, false},
                              {"bucket", buckets, buckets, false}};
  create_columns(file, training_columns(), dimensions);
  write_column(file, "/phase", std::vector<std::string>(phase_names.begin(), phase_names.end()));
  write_ranks(file, header.ranks);
  if (buckets == 0) return;
  create_columns(file, bucket_columns(), dimensions);
  write_column(file, "/bucket", counted(buckets, 0));
  write_column(file, "/buckets/bytes", header.bucket_bytes);
}

void check_epoch(const EpochRecord& epoch, const RunHeader& header) {
  const std::size_t steps = epoch.loss.size();
  const std::size_t rows = steps * header.ranks.size();
  core::check(steps > 0, "an epoch without steps");
  core::check(epoch.learning_rate.size() == steps, "learning rates do not fit the steps");
  core::check(epoch.images.size() == steps, "image counts do not fit the steps");
  core::check(epoch.phase_seconds.size() == rows * phase_count, "phases do not fit the steps");
  const std::size_t times = rows * header.bucket_bytes.size();
  core::check(epoch.bucket_start_seconds.size() == times, "bucket starts do not fit the steps");
  core::check(epoch.bucket_end_seconds.size() == times, "bucket ends do not fit the steps");
  for (const auto* values : {&epoch.energy_joules, &epoch.utilisation, &epoch.memory_used_bytes})
    core::check(values->size() == header.ranks.size(), "readings do not fit the ranks");
  core::check(epoch.parameter_hash.size() <= short_text_bytes, "the parameter hash is too long");
}

void write_epoch(const hdf5::File& file, const EpochRecord& epoch, hsize_t first_step,
                 hsize_t row) {
  const auto steps = static_cast<hsize_t>(epoch.loss.size());
  const auto add = [&](const char* path, const auto& values) {
    append_rows(file, path, first_step, steps, values);
  };
  add("/step", counted(steps, static_cast<std::int64_t>(first_step) + 1));
  add("/steps/epoch", std::vector<std::int64_t>(steps, epoch.epoch));
  add("/steps/learning_rate", epoch.learning_rate);
  add("/steps/loss", epoch.loss);
  add("/steps/images", epoch.images);
  add("/steps/phase_seconds", epoch.phase_seconds);
  if (!epoch.bucket_start_seconds.empty()) {
    add("/buckets/start_seconds", epoch.bucket_start_seconds);
    add("/buckets/end_seconds", epoch.bucket_end_seconds);
  }
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");

  const auto add_result = [&](const char* path, double value) {
    append_rows(file, path, row, 1, std::vector{value});
  };
  add_result("/epochs/train_loss", epoch.train_loss);
  add_result("/epochs/train_accuracy", epoch.train_accuracy);
  add_result("/epochs/test_loss", epoch.test_loss);
  add_result("/epochs/test_accuracy", epoch.test_accuracy);
  append_rows(file, "/epochs/energy_joules", row, 1, epoch.energy_joules);
  append_rows(file, "/epochs/utilisation", row, 1, epoch.utilisation);
  append_rows(file, "/epochs/memory_used_bytes", row, 1, epoch.memory_used_bytes);
  add_result("/epochs/seconds", epoch.seconds);
  add_result("/epochs/evaluation_seconds", epoch.evaluation_seconds);
  append_rows(file, "/epochs/parameter_hash", row, 1, epoch.parameter_hash);
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");

  // Written last: if /epoch contains an epoch, all other datasets contain it completely.
  append_rows(file, "/epoch", row, 1, std::vector<std::int64_t>{epoch.epoch});
}

void write_rows(const hdf5::File& file, const std::vector<AllReduceRow>& rows) {
  const std::size_t repeats = rows.empty() ? 0 : rows.front().seconds.size();
  core::check(repeats > 0, "a sweep without measurements");
  std::vector<double> seconds;
  for (const AllReduceRow& row : rows) {
    core::check(row.seconds.size() == repeats, "rows of a sweep with different repeats");
    seconds.insert(seconds.end(), row.seconds.begin(), row.seconds.end());
  }
  create_group(file, "/allreduce", {});
  create_columns(
      file, allreduce_columns(),
      {{"message", rows.size(), rows.size(), false}, {"repeat", repeats, repeats, false}});
  write_column(file, "/message", counted(rows.size(), 0));
  write_column(file, "/repeat", counted(repeats, 0));
  write_column(file, "/allreduce/way", column_of(rows, [](auto& r) { return r.way; }));
  write_column(file, "/allreduce/bytes", column_of(rows, [](auto& r) { return r.bytes; }));
  write_column(file, "/allreduce/seconds", seconds);
  write_column(file, "/allreduce/wrong", column_of(rows, [](auto& r) { return r.wrong; }));
}

void create_ladder(const hdf5::File& file) {
  create_group(file, "/ladder", {});
  create_columns(file, ladder_columns(), {{"point", 0, 1, true}});
}

void write_point(const hdf5::File& file, const LadderRow& point, hsize_t row) {
  const auto add = [&](const char* path, auto value) {
    append_rows(file, path, row, 1, std::vector{value});
  };
  add("/ladder/batch_per_rank", point.batch_per_rank);
  append_rows(file, "/ladder/status", row, 1, point.status);
  add("/ladder/epoch_seconds", point.epoch_seconds);
  add("/ladder/training_seconds", point.training_seconds);
  add("/ladder/images_per_second", point.images_per_second);
  add("/ladder/predicted_bytes", point.predicted_bytes);
  add("/ladder/peak_bytes", point.peak_bytes);
  add("/ladder/steps", point.steps);
  add("/ladder/is_extrapolated", std::int64_t{point.is_extrapolated});
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");

  // Written last: if /point contains a row, all other datasets of /ladder contain it.
  add("/point", static_cast<std::int64_t>(row));
}

}  // namespace lockstep::record
