#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hdf5.hpp"
#include "lockstep/record/run_file.hpp"

// Schema of the run file: lists of its datasets, called columns, and functions that create and
// write them.
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

/// Element type: int64, uint64, float64, variable-length text, fixed-length text.
enum class Kind { integer, bytes, real, text, short_text };

/// A dataset: one quantity with one to three dimensions. A dataset "/NAME" in the root is the
/// dimension scale of NAME.
struct Column {
  std::string_view path;
  Kind kind;
  std::string_view units;
  std::string_view long_name;
  std::vector<std::string_view> dimensions;
};

/// Length of a `short_text` in bytes. Fixed-length texts can be appended while readers have the
/// file open.
inline constexpr std::size_t short_text_bytes = 64;

/// Returns the datasets of every run: scales, /ranks, /steps and /epochs.
const std::vector<Column>& training_columns();
/// Returns the datasets of a run with gradient buckets: /bucket and /buckets.
const std::vector<Column>& bucket_columns();
/// Returns the datasets of an all-reduce sweep: /message, /repeat and /allreduce.
const std::vector<Column>& allreduce_columns();
/// Returns the datasets of a batch ladder: /point and /ladder.
const std::vector<Column>& ladder_columns();

/// Creates the datasets in the order of `columns`; the scale of a dimension must precede the
/// datasets that use it. All datasets except those of variable-length text are chunked and have
/// Fletcher-32 checksums.
void create_columns(const hdf5::File& file, const std::vector<Column>& columns,
                    const Dimensions& dimensions);

/// Writes all elements of a dataset of fixed size. Throws `Error` (internal) if the number of
/// values differs from its size.
void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::int64_t>& values);
void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::uint64_t>& values);
void write_column(const hdf5::File& file, const char* path, const std::vector<double>& values);
void write_column(const hdf5::File& file, const char* path, const std::vector<std::string>& values);

/// Extends a dataset to `first_row + rows` rows and writes the last `rows` of them. Throws `Error`
/// (internal) if the number of values does not fit.
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<std::int64_t>& values);
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<std::uint64_t>& values);
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<double>& values);
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::string& value);

/// Reads all datasets in `columns` except those of variable-length text, so that HDF5 verifies
/// their checksums. Throws `Failure` if a dataset is missing or damaged.
void read_through(const hdf5::File& file, const std::vector<Column>& columns);

}  // namespace lockstep::record
