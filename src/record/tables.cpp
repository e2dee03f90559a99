// SPDX-License-Identifier: BSD-3-Clause
// The groups of the run file that are written as a whole.

#include <algorithm>

#include "datasets.hpp"
#include "run_file_contents.hpp"

namespace lockstep::record {

namespace {

/// Returns the number of values in each measured row; 1 if no row was measured.
template <class Row>
std::size_t values_per_row(const std::vector<Row>& rows, std::vector<double> Row::*seconds) {
  std::size_t count = 1;
  for (const Row& row : rows) count = std::max(count, (row.*seconds).size());
  return count;
}

}  // namespace

void write_rows(const hdf5::File& file, const std::vector<AllReduceRow>& rows) {
  const std::size_t repeats = values_per_row(rows, &AllReduceRow::seconds);
  const Table table(file, "/allreduce", "message", rows, "repeat", repeats);
  table.column("algorithm", &AllReduceRow::algorithm);
  table.column("bytes", &AllReduceRow::bytes);
  table.column("wrong", &AllReduceRow::wrong);
  table.matrix("seconds", &AllReduceRow::seconds);
}

void write_rows(const hdf5::File& file, const std::vector<LayerRow>& rows) {
  const std::size_t repeats = values_per_row(rows, &LayerRow::forward_seconds);
  const Table table(file, "/layers", "layer", rows, "repeat", repeats);
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
  const std::size_t repeats = values_per_row(rows, &StackRow::forward_seconds);
  const Table table(file, "/stack", "stack_row", rows, "repeat", repeats);
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

void write_profile(const hdf5::File& file, const Profile& profile) {
  using Row = ProfiledOperation;
  const std::vector<Row>& rows = profile.operations;
  const std::size_t ranks = values_per_row(rows, &Row::seconds);
  const Table table(file, "/profile", "operation", rows, "rank", ranks);
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
