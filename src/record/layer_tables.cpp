// The groups /layers and /stack of the run file.

#include <algorithm>
#include <limits>

#include "datasets.hpp"
#include "lockstep/core/error.hpp"
#include "run_file_contents.hpp"

namespace lockstep::record {

namespace {

/// Returns the seconds (row, repeat); NaN in the rows that were not measured.
template <class Row>
std::vector<double> seconds_of(const std::vector<Row>& rows, std::vector<double> Row::*member,
                               std::size_t repeats) {
  std::vector<double> values;
  for (const Row& row : rows) {
    const auto& seconds = row.*member;
    core::check(seconds.empty() || seconds.size() == repeats, "rows with different repeats");
    values.insert(values.end(), seconds.begin(), seconds.end());
    values.resize(values.size() + repeats - seconds.size(),
                  std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

/// Returns the number of repeats of the measured rows; 1 if no row was measured.
template <class Row>
std::size_t repeats_of(const std::vector<Row>& rows) {
  std::size_t repeats = 1;
  for (const Row& row : rows) repeats = std::max(repeats, row.forward_seconds.size());
  return repeats;
}

void create_table(const hdf5::File& file, const std::string& path, std::string_view dimension,
                  std::size_t rows, std::size_t repeats) {
  core::check(rows > 0, "a table has rows");
  hdf5::new_group(file, path);
  create_datasets(file, path,
                  {{dimension, rows, rows, false}, {"repeat", repeats, repeats, false}});
}

}  // namespace

void write_rows(const hdf5::File& file, const std::vector<LayerRow>& rows) {
  const std::size_t repeats = repeats_of(rows);
  create_table(file, "/layers", "layer", rows.size(), repeats);
  const auto numbers = counted(rows.size()), repeat_numbers = counted(repeats);
  const auto names = column_of(rows, [](auto& r) { return r.layer; });
  const auto statuses = column_of(rows, [](auto& r) { return r.status; });
  const auto batches = column_of(rows, [](auto& r) { return r.batch; });
  const auto forward_flops = column_of(rows, [](auto& r) { return r.forward_flops; });
  const auto backward_flops = column_of(rows, [](auto& r) { return r.backward_flops; });
  const auto forward_bytes = column_of(rows, [](auto& r) { return r.forward_bytes; });
  const auto backward_bytes = column_of(rows, [](auto& r) { return r.backward_bytes; });
  const auto forward = seconds_of(rows, &LayerRow::forward_seconds, repeats);
  const auto backward = seconds_of(rows, &LayerRow::backward_seconds, repeats);
  const auto estimated = column_of(rows, [](auto& r) { return r.estimated_bytes; });
  const auto peak = column_of(rows, [](auto& r) { return r.peak_bytes; });
  const auto flop_rates = column_of(rows, [](auto& r) { return r.flops_per_second; });
  const auto copy_rates = column_of(rows, [](auto& r) { return r.bytes_per_second; });
  const auto power = column_of(rows, [](auto& r) { return r.power_watts; });
  const auto energy = column_of(rows, [](auto& r) { return r.energy_joules; });
  write_columns(file, {{"/layer", numbers},
                       {"/repeat", repeat_numbers},
                       {"/layers/description", names},
                       {"/layers/status", statuses},
                       {"/layers/batch", batches},
                       {"/layers/forward_flops", forward_flops},
                       {"/layers/backward_flops", backward_flops},
                       {"/layers/forward_bytes", forward_bytes},
                       {"/layers/backward_bytes", backward_bytes},
                       {"/layers/forward_seconds", forward},
                       {"/layers/backward_seconds", backward},
                       {"/layers/estimated_bytes", estimated},
                       {"/layers/peak_bytes", peak},
                       {"/layers/product_flops_per_second", flop_rates},
                       {"/layers/copy_bytes_per_second", copy_rates},
                       {"/layers/power_watts", power},
                       {"/layers/energy_joules", energy}});
}

void write_rows(const hdf5::File& file, const std::vector<StackRow>& rows) {
  const std::size_t repeats = repeats_of(rows);
  create_table(file, "/stack", "stack_row", rows.size(), repeats);
  const auto numbers = counted(rows.size()), repeat_numbers = counted(repeats);
  const auto names = column_of(rows, [](auto& r) { return r.layer; });
  const auto statuses = column_of(rows, [](auto& r) { return r.status; });
  const auto stages = column_of(rows, [](auto& r) { return r.stages; });
  const auto depths = column_of(rows, [](auto& r) { return r.depth; });
  const auto estimated_depths = column_of(rows, [](auto& r) { return r.estimated_depth; });
  const auto limits = column_of(rows, [](auto& r) { return r.limit_bytes; });
  const auto estimated = column_of(rows, [](auto& r) { return r.estimated_bytes; });
  const auto peak = column_of(rows, [](auto& r) { return r.peak_bytes; });
  const auto forward = seconds_of(rows, &StackRow::forward_seconds, repeats);
  write_columns(file, {{"/stack_row", numbers},
                       {"/repeat", repeat_numbers},
                       {"/stack/layer", names},
                       {"/stack/status", statuses},
                       {"/stack/stages", stages},
                       {"/stack/depth", depths},
                       {"/stack/estimated_depth", estimated_depths},
                       {"/stack/limit_bytes", limits},
                       {"/stack/estimated_bytes", estimated},
                       {"/stack/peak_bytes", peak},
                       {"/stack/forward_seconds", forward}});
}

}  // namespace lockstep::record
