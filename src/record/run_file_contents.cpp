// SPDX-License-Identifier: BSD-3-Clause
#include "run_file_contents.hpp"

#include <cstdint>

#include "datasets.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/provenance.hpp"
#include "schema.hpp"

namespace lockstep::record {

namespace {

/// Returns a column with the single value `value`.
template <class T>
Column single(std::string_view path, const T& value) {
  return {path, std::span<const T>(&value, 1)};
}

void create_group(const hdf5::File& file, const std::string& name,
                  const Attributes& attributes = {}) {
  const hdf5::Group group = hdf5::new_group(file, name);
  for (const auto& [key, value] : attributes) hdf5::set_attribute(group.get(), key, value);
}

void flush(const hdf5::File& file) {
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");
}

void write_attributes(const hdf5::File& file, const RunHeader& header,
                      const std::string& date_utc) {
  const Build& build = this_build();
  const auto set = [&](const char* name, const auto& value) {
    core::check(run_file_schema().attributes.contains({"/", name}),
                "an attribute is not in the schema");
    hdf5::set_attribute(file.get(), name, value);
  };
  set("format", run_file_schema().format);
  set("format_version", run_file_schema().version);
  set("software_version", std::string(build.version));
  set("git_commit", std::string(build.git_commit));
  set("git_dirty", std::int64_t{build.git_dirty});
  set("date_utc", date_utc);
  set("command_line", header.command_line);
  set("run_id", header.run_id);
  set("part", header.part);
  set("first_step", header.first_step);
  set("steps_per_epoch", header.steps_per_epoch);
  set("images_per_epoch", header.images_per_epoch);
  set("status", std::string("running"));
  set("failure", std::string());
}

void write_ranks(const hdf5::File& file, const std::vector<RankInfo>& ranks) {
  const Table table(file, "/ranks", "rank", ranks);
  table.column("rank", [](auto& r) { return std::int64_t{r.rank}; });
  table.column("local_rank", [](auto& r) { return std::int64_t{r.local_rank}; });
  table.column("host", [](auto& r) { return std::int64_t{r.host}; });
  table.column("hostname", &RankInfo::hostname);
  table.column("cpu_list", &RankInfo::cpu_list);
  table.column("core_list", &RankInfo::core_list);
  table.column("device_name", &RankInfo::device_name);
  table.column("device_uuid", &RankInfo::device_uuid);
  table.column("pci_bus_id", &RankInfo::pci_bus_id);
  table.column("memory_bytes", &RankInfo::memory_bytes);
}

/// Returns the dimensions of training datasets. `steps`, `epochs`: their sizes.
Dimensions training_dimensions(const RunHeader& header, hsize_t steps, hsize_t epochs,
                               hsize_t steps_per_chunk) {
  return {{"step", steps, steps_per_chunk},
          {"epoch", epochs, 1},
          {"rank", header.ranks.size()},
          {"phase", phase_count},
          {"clock_reading", clock_reading_names.size()},
          {"bucket", header.bucket_sizes.size()}};
}

/// Adds the further measurements that have the first dimension `dimension`.
void add_measurements(Columns& columns, const EpochRecord& epoch, std::string_view dimension) {
  for (const auto& [path, values] : epoch.measurements) {
    if (run_file_schema().dataset(path).dimensions.front() == dimension) {
      columns.push_back({path, values});
    }
  }
}

/// Returns the columns of the steps of an epoch. `numbers`: its number, once per step.
Columns columns_of_steps(const EpochRecord& epoch, std::span<const std::int64_t> numbers) {
  Columns columns{{"/steps/epoch", numbers},
                  {"/steps/learning_rate", epoch.learning_rate},
                  {"/steps/loss", epoch.loss},
                  {"/steps/images", epoch.images},
                  {"/steps/phase_seconds", epoch.phase_seconds},
                  {"/buckets/start_seconds", epoch.bucket_start_seconds},
                  {"/buckets/end_seconds", epoch.bucket_end_seconds}};
  add_measurements(columns, epoch, "step");
  return columns;
}

Columns columns_of_epoch(const EpochRecord& epoch) {
  Columns columns{single("/epochs/train_loss", epoch.train_loss),
                  single("/epochs/train_accuracy", epoch.train_accuracy),
                  single("/epochs/test_loss", epoch.test_loss),
                  single("/epochs/test_accuracy", epoch.test_accuracy),
                  single("/epochs/seconds", epoch.seconds),
                  single("/epochs/evaluation_seconds", epoch.evaluation_seconds),
                  single("/epochs/parameter_hash", epoch.parameter_hash)};
  add_measurements(columns, epoch, "epoch");
  return columns;
}

constexpr std::size_t quantities = telemetry_paths.size();

/// Returns the elements `offset`, `offset + stride`, ... of the first `count` rows.
std::vector<double> column(const std::vector<double>& table, std::size_t count, std::size_t stride,
                           std::size_t offset) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = table[i * stride + offset];
  return values;
}

/// Creates the group /telemetry and writes the names of the interfaces.
void create_telemetry(const hdf5::File& file, const RunHeader& header) {
  const std::vector<std::string>& names = header.telemetry_interfaces.value();
  const std::size_t ranks = header.ranks.size();
  const std::size_t interfaces = names.size() / ranks;
  core::check(interfaces > 0 && names.size() == interfaces * ranks,
              "the names of the interfaces do not fit the ranks");
  hdf5::new_group(file, "/telemetry");
  create_datasets(file, "/telemetry",
                  {{"sample", 0, telemetry_chunk}, {"interface", interfaces}, {"rank", ranks}});
  write_columns(file, {{"/telemetry/interface_name", names}});
}

void check_telemetry(const TelemetrySamples& samples, const RunHeader& header) {
  const std::size_t count = samples.size();
  if (count == 0) return;
  core::check(header.telemetry_interfaces.has_value(), "samples of a run without telemetry");
  const std::size_t interfaces = header.telemetry_interfaces->size() / header.ranks.size();
  core::check(samples.values.size() == count * quantities &&
                  samples.traffic_bytes.size() == count * interfaces * 2,
              "the telemetry has arrays of another size");
}

}  // namespace

void write_beginning(const hdf5::File& file, const RunHeader& header, const std::string& date_utc,
                     hsize_t steps_per_chunk) {
  write_attributes(file, header, date_utc);
  create_group(file, "/config", header.config);
  create_group(file, "/environment", header.environment);
  create_group(file, "/results");
  create_group(file, "/buckets");
  const Dimensions dimensions = training_dimensions(header, 0, 0, steps_per_chunk);
  write_ranks(file, header.ranks);
  for (const char* name : {"/steps", "/epochs"}) {
    create_group(file, name);
    create_datasets(file, name, dimensions);
  }
  if (header.telemetry_interfaces) create_telemetry(file, header);
  if (header.bucket_sizes.empty()) return;
  create_datasets(file, "/buckets", dimensions);
  write_columns(file, {{"/buckets/bytes", header.bucket_sizes}});
}

std::size_t check_epoch(const EpochRecord& epoch, const RunHeader& header) {
  const std::size_t steps = epoch.loss.size();
  core::check(steps > 0, "an epoch without steps");
  const Dimensions sizes = training_dimensions(header, steps, 1, 1);
  const std::vector<std::int64_t> numbers(steps, epoch.epoch);
  check_telemetry(epoch.telemetry, header);
  return check_rows("step", columns_of_steps(epoch, numbers), sizes) +
         check_rows("epoch", columns_of_epoch(epoch), sizes) + steps + 1;
}

void write_epoch(const hdf5::File& file, const EpochRecord& epoch, hsize_t first_step,
                 hsize_t row) {
  const std::size_t steps = epoch.loss.size();
  append_scale(file, "step", first_step, counted(steps, static_cast<std::int64_t>(first_step) + 1));
  const std::vector<std::int64_t> numbers(steps, epoch.epoch);
  append_rows(file, "step", first_step, steps, columns_of_steps(epoch, numbers));
  flush(file);
  append_rows(file, "epoch", row, 1, columns_of_epoch(epoch));
  flush(file);
  // Written last: if /epoch contains an epoch, all other datasets contain it completely.
  append_scale(file, "epoch", row, {&epoch.epoch, 1});
}

void create_ladder(const hdf5::File& file) {
  create_group(file, "/ladder");
  create_datasets(file, "/ladder", {{"point", 0, 1}});
}

void write_point(const hdf5::File& file, const LadderRow& point, hsize_t row) {
  const std::int64_t is_extrapolated = point.is_extrapolated;
  const Columns columns{single("/ladder/batch_per_rank", point.batch_per_rank),
                        single("/ladder/status", point.status),
                        single("/ladder/epoch_seconds", point.epoch_seconds),
                        single("/ladder/training_seconds", point.training_seconds),
                        single("/ladder/images_per_second", point.images_per_second),
                        single("/ladder/predicted_bytes", point.predicted_bytes),
                        single("/ladder/peak_bytes", point.peak_bytes),
                        single("/ladder/steps", point.steps),
                        single("/ladder/is_extrapolated", is_extrapolated)};
  check_rows("point", columns, {{"point", 1}});
  append_rows(file, "point", row, 1, columns);
  flush(file);
  // Written last: if /point contains a row, all other datasets of /ladder contain it.
  append_scale(file, "point", row, counted(1, static_cast<std::int64_t>(row)));
}

void write_telemetry(const hdf5::File& file, const TelemetrySamples& samples, std::size_t count,
                     hsize_t first_row) {
  if (count == 0) return;
  const std::size_t pairs = samples.traffic_bytes.size() / samples.size() / 2;
  const auto received = column(samples.traffic_bytes, count * pairs, 2, 0);
  const auto sent = column(samples.traffic_bytes, count * pairs, 2, 1);
  Columns columns{{"/telemetry/rank", std::span<const std::int64_t>(samples.rank).first(count)},
                  {"/telemetry/received_bytes", received},
                  {"/telemetry/sent_bytes", sent}};
  std::vector<std::vector<double>> values;
  values.reserve(quantities);
  for (std::size_t i = 0; i < quantities; ++i) {
    values.push_back(column(samples.values, count, quantities, i));
    columns.push_back({telemetry_paths[i], values.back()});
  }
  check_rows("sample", columns, {{"sample", count}, {"interface", pairs}});
  append_rows(file, "sample", first_row, count, columns);
  flush(file);
  // Written last: if /sample contains a row, all other datasets of /telemetry contain it.
  append_scale(file, "sample", first_row, counted(count, static_cast<std::int64_t>(first_row)));
}

void write_rows(const hdf5::File& file, const std::vector<AllReduceRow>& rows) {
  const Table table(file, "/allreduce", "message", rows, "repeat", &AllReduceRow::seconds);
  table.column("algorithm", &AllReduceRow::algorithm);
  table.column("bytes", &AllReduceRow::bytes);
  table.column("wrong", &AllReduceRow::wrong);
  table.matrix("seconds", &AllReduceRow::seconds);
}

void write_rows(const hdf5::File& file, const std::vector<LayerRow>& rows) {
  const Table table(file, "/layers", "layer", rows, "repeat", &LayerRow::forward_seconds);
  table.column("description", &LayerRow::layer);
  table.column("status", &LayerRow::status);
  table.column("batch", &LayerRow::batch);
  table.column("forward_flops", &LayerRow::forward_flops);
  table.column("backward_flops", &LayerRow::backward_flops);
  table.column("forward_bytes", &LayerRow::forward_bytes);
  table.column("backward_bytes", &LayerRow::backward_bytes);
  table.matrix("forward_seconds", &LayerRow::forward_seconds);
  table.matrix("backward_seconds", &LayerRow::backward_seconds);
  table.column("estimated_bytes", &LayerRow::estimated_bytes);
  table.column("peak_bytes", &LayerRow::peak_bytes);
  table.column("product_flops_per_second", &LayerRow::flops_per_second);
  table.column("copy_bytes_per_second", &LayerRow::bytes_per_second);
  table.column("power_watts", &LayerRow::power_watts);
  table.column("energy_joules", &LayerRow::energy_joules);
}

void write_rows(const hdf5::File& file, const std::vector<StackRow>& rows) {
  const Table table(file, "/stack", "stack_row", rows, "repeat", &StackRow::forward_seconds);
  table.column("layer", &StackRow::layer);
  table.column("status", &StackRow::status);
  table.column("stages", &StackRow::stages);
  table.column("depth", &StackRow::depth);
  table.column("estimated_depth", &StackRow::estimated_depth);
  table.column("limit_bytes", &StackRow::limit_bytes);
  table.column("estimated_bytes", &StackRow::estimated_bytes);
  table.column("peak_bytes", &StackRow::peak_bytes);
  table.matrix("forward_seconds", &StackRow::forward_seconds);
}

void write_rows(const hdf5::File& file, const std::vector<ProfiledOperation>& rows) {
  using Row = ProfiledOperation;
  const Table table(file, "/profile", "operation", rows, "rank", &Row::seconds);
  table.column("name", &Row::name);
  table.column("kind", &Row::what);
  table.column("phase", &Row::phase);
  table.column("implementation", &Row::implementation);
  table.column("ceiling", &Row::ceiling);
  table.column("calls", &Row::calls);
  table.column("flops", &Row::flops);
  table.column("bytes", &Row::bytes);
  table.column("bound_seconds", &Row::bound_seconds);
  table.matrix("seconds", &Row::seconds);
}

}  // namespace lockstep::record
