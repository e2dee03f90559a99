// SPDX-License-Identifier: BSD-3-Clause
#include "telemetry_contents.hpp"

#include "datasets.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::record {

namespace {

constexpr std::size_t quantities = telemetry_paths.size();

/// Returns the elements `offset`, `offset + stride`, ... of the first `count` rows.
std::vector<double> column(const std::vector<double>& table, std::size_t count, std::size_t stride,
                           std::size_t offset) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = table[i * stride + offset];
  return values;
}

template <class T>
void drop_front(std::vector<T>& values, std::size_t count) {
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
}

template <class T>
void append_values(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void create_telemetry(const hdf5::File& file, const RunHeader& header) {
  const std::vector<std::string>& names = header.telemetry_interfaces.value();
  const std::size_t ranks = header.ranks.size();
  const std::size_t interfaces = names.size() / ranks;
  core::check(interfaces > 0 && names.size() == interfaces * ranks,
              "the names of the interfaces do not fit the ranks");
  hdf5::new_group(file, "/telemetry");
  create_datasets(file, "/telemetry",
                  {{"sample", 0, telemetry_chunk, true},
                   {"interface", interfaces, interfaces, false},
                   {"rank", ranks, ranks, false}});
  const auto numbers = counted(interfaces);
  write_columns(file, {{"/interface", numbers}, {"/telemetry/interface_name", names}});
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

void append_samples(const TelemetrySamples& from, TelemetrySamples& to) {
  append_values(from.rank, to.rank);
  append_values(from.values, to.values);
  append_values(from.traffic_bytes, to.traffic_bytes);
}

void drop_samples(TelemetrySamples& samples, std::size_t count) {
  if (count == 0) return;
  const std::size_t traffic = samples.traffic_bytes.size() / samples.size();
  drop_front(samples.rank, count);
  drop_front(samples.values, count * quantities);
  drop_front(samples.traffic_bytes, count * traffic);
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
  check_rows("sample", columns, {{"sample", count, 1, true}, {"interface", pairs, 1, false}});
  append_rows(file, "sample", first_row, count, columns);
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");
  // Written last: if /sample contains a row, all other datasets of /telemetry contain it.
  append_scale(file, "sample", first_row, counted(count, static_cast<std::int64_t>(first_row)));
}

}  // namespace lockstep::record
