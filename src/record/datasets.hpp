// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "schema.hpp"

// Datasets of the run file, created and written as its schema describes them.
namespace lockstep::record {

/// A dimension of datasets. The dataset /NAME is its dimension scale.
struct Dimension {
  std::string_view name;
  hsize_t size = 0;  ///< initial size
  /// Chunk size of an extensible dimension, along which rows are appended; 0: fixed size.
  hsize_t growing_chunk = 0;
};
using Dimensions = std::vector<Dimension>;

/// Values of a dataset, last dimension fastest, in memory of the caller. The alternatives are in
/// the order of `ElementType`.
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

/// Returns `size` consecutive numbers from `first`, the values of a dimension scale.
inline std::vector<std::int64_t> counted(std::size_t size, std::int64_t first = 0) {
  std::vector<std::int64_t> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Creates the datasets of the group `path`, which must exist, except those of type text, and the
/// scales of their dimensions that do not exist yet. Writes the scales of fixed size. All datasets
/// are chunked and have Fletcher-32 checksums; elements of type float64 that are never written are
/// NaN.
void create_datasets(const hdf5::File& file, const std::string& path, const Dimensions& dimensions);

/// Throws `Error` (internal) if the columns cannot be appended along `dimension`: if one of them is
/// not in the schema or not indexed by `dimension`, has values of another type or number, or if a
/// required dataset has no column. `sizes`: sizes of the dimensions; that of `dimension` is the
/// number of rows. Returns the number of all values.
std::size_t check_rows(std::string_view dimension, const Columns& columns, const Dimensions& sizes);

/// Writes all elements of datasets of fixed size. Creates those of type text, with the length of
/// the longest text, because HDF5 protects texts of variable length by no checksum. Throws
/// `Failure` if the number of the values differs from the dataset.
void write_columns(const hdf5::File& file, const Columns& columns);

/// A group that is written as a whole: datasets whose first dimension counts `rows`.
template <class Row>
class Table {
 public:
  /// Creates the group `path` with its datasets and scales. `second`: name of another dimension,
  /// which has the size of `values` in the rows with values, or 1; without a name there is none.
  Table(const hdf5::File& file, std::string path, std::string_view dimension,
        const std::vector<Row>& rows, std::string_view second = {},
        std::vector<double> Row::*values = nullptr)
      : file_(file), path_(std::move(path)), rows_(rows) {
    core::check(!rows.empty(), "a table has rows");
    hdf5::new_group(file, path_);
    Dimensions dimensions{{dimension, rows.size()}};
    if (!second.empty()) {
      for (const Row& row : rows) extent_ = std::max(extent_, (row.*values).size());
      dimensions.push_back({second, extent_});
    }
    create_datasets(file, path_, dimensions);
  }

  /// Writes the dataset `name`: `get(row)` of all rows.
  template <class Get>
  void column(std::string_view name, Get get) const {
    using Value = std::decay_t<std::invoke_result_t<Get, const Row&>>;
    std::vector<Value> values;
    values.reserve(rows_.size());
    for (const Row& row : rows_) values.push_back(std::invoke(get, row));
    write(name, std::span<const Value>(values));
  }

  /// Writes the dataset `name` (row, second dimension): the values `get(row)` of all rows. Rows
  /// without values are NaN.
  template <class Get>
  void matrix(std::string_view name, Get get) const {
    std::vector<double> values;
    for (const Row& row : rows_) {
      const std::vector<double>& own = std::invoke(get, row);
      core::check(own.empty() || own.size() == extent_, "rows of a table with different sizes");
      values.insert(values.end(), own.begin(), own.end());
      values.resize(values.size() + extent_ - own.size(), std::numeric_limits<double>::quiet_NaN());
    }
    write(name, std::span<const double>(values));
  }

 private:
  void write(std::string_view name, const Values& values) const {
    const std::string path = path_ + "/" + std::string(name);
    write_columns(file_, {{path, values}});
  }

  const hdf5::File& file_;
  std::string path_;
  const std::vector<Row>& rows_;
  std::size_t extent_ = 1;  ///< of the second dimension
};

/// Extends all datasets along `dimension` that the file has to `first_row + rows` rows, and writes
/// the last `rows` of those that have a column.
void append_rows(const hdf5::File& file, std::string_view dimension, hsize_t first_row,
                 hsize_t rows, const Columns& columns);
/// Extends the scale of `dimension` in the same way and writes its last values.
void append_scale(const hdf5::File& file, std::string_view dimension, hsize_t first_row,
                  std::span<const std::int64_t> values);

/// Reads all datasets of the file, so that HDF5 verifies their checksums. Throws `Failure` if one
/// is damaged.
void read_through(const hdf5::File& file);

}  // namespace lockstep::record
