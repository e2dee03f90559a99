#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "hdf5.hpp"

// Datasets of the run file, created and written as its schema describes them.
namespace lockstep::record {

/// A dimension of datasets. The dataset /NAME is its dimension scale.
struct Dimension {
  std::string_view name;
  hsize_t size = 0;   ///< initial size
  hsize_t chunk = 1;  ///< chunk size along this dimension
  /// Whether the dimension is extensible. Rows are appended for each epoch or point of a ladder.
  bool grows = false;
};
using Dimensions = std::vector<Dimension>;

/// Values of a dataset, last dimension fastest, in memory of the caller.
using Values = std::variant<std::span<const std::int64_t>, std::span<const std::uint64_t>,
                            std::span<const double>, std::span<const std::string>>;

/// Values to write to the dataset `path`.
struct Column {
  std::string_view path;
  Values values;

  std::size_t size() const {
    return std::visit([](const auto& of_type) { return of_type.size(); }, values);
  }
};
using Columns = std::vector<Column>;

/// Returns the values `get(row)` of all rows.
template <class Row, class Get>
auto column_of(const std::vector<Row>& rows, Get get) {
  std::vector<std::decay_t<decltype(get(rows.front()))>> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(get(row));
  return values;
}

/// Returns `size` consecutive numbers from `first`, the values of a dimension scale.
inline std::vector<std::int64_t> counted(std::size_t size, std::int64_t first = 0) {
  std::vector<std::int64_t> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Creates the datasets of the group `path`, which must exist, except those of type text, and the
/// scales of their dimensions that do not exist yet. All datasets are chunked and have Fletcher-32
/// checksums; elements of type float64 that are never written are NaN.
void create_datasets(const hdf5::File& file, const std::string& path, const Dimensions& dimensions);

/// Throws `Error` (internal) if the columns cannot be appended along `dimension`: if one of them is
/// not in the schema or not indexed by `dimension`, has values of another type or number, or if a
/// required dataset has no column. `sizes`: sizes of the dimensions; that of `dimension` is the
/// number of rows.
void check_rows(std::string_view dimension, const Columns& columns, const Dimensions& sizes);

/// Writes all elements of datasets of fixed size. Creates those of type text, with the length of
/// the longest text, because HDF5 protects texts of variable length by no checksum. Throws `Error`
/// (internal) if the type or number of the values differs from the dataset.
void write_columns(const hdf5::File& file, const Columns& columns);

/// Extends all datasets along `dimension` that the file has to `first_row + rows` rows, and writes
/// the last `rows` of those that have a column. Throws `Error` (internal) if the type or number of
/// the values does not fit.
void append_rows(const hdf5::File& file, std::string_view dimension, hsize_t first_row,
                 hsize_t rows, const Columns& columns);
/// Extends the scale of `dimension` in the same way and writes its last values.
void append_scale(const hdf5::File& file, std::string_view dimension, hsize_t first_row,
                  std::span<const std::int64_t> values);

/// Reads all datasets of the groups and their scales, so that HDF5 verifies their checksums. Throws
/// `Failure` if a dataset is missing or damaged.
void read_through(const hdf5::File& file, const std::vector<std::string>& groups);

}  // namespace lockstep::record
