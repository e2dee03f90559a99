#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hdf5.hpp"
#include "lockstep/record/run_file.hpp"

// What stands in a run file, as one list of columns, and how rows get into it.
namespace lockstep::record {

/// A dimension of the file with the scale of its name in the root. Dimensions that grow do so by
/// whole epochs; `chunk` is the number of entries that lie together on the disk.
struct Dimension {
  std::string_view name;
  hsize_t size = 0;
  hsize_t chunk = 1;
  bool grows = false;
};
using Dimensions = std::vector<Dimension>;

enum class Kind { integer, bytes, real, text, short_text };

/// A dataset: one quantity over one to three dimensions. "/NAME" itself is the scale of NAME.
struct Column {
  std::string_view path;
  Kind kind;
  std::string_view units;
  std::string_view long_name;
  std::vector<std::string_view> dimensions;
};

/// Length in bytes of a `short_text`: texts of fixed length, which can be appended while readers
/// have the file open.
inline constexpr std::size_t short_text_bytes = 64;

const std::vector<Column>& training_columns();
const std::vector<Column>& bucket_columns();
const std::vector<Column>& allreduce_columns();
const std::vector<Column>& ladder_columns();

/// Creates the columns in order (scales first), chunked, with Fletcher-32 checksums on all numbers.
void create_columns(const hdf5::File& file, const std::vector<Column>& columns,
                    const Dimensions& dimensions);

/// Fills a whole column of fixed size; the element type is the column's.
void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::int64_t>& values);
void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::uint64_t>& values);
void write_column(const hdf5::File& file, const char* path, const std::vector<double>& values);
void write_column(const hdf5::File& file, const char* path, const std::vector<std::string>& values);

/// Makes a growing column `first_row + rows` long and writes the last `rows` of them.
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<std::int64_t>& values);
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<std::uint64_t>& values);
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<double>& values);
void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::string& value);

/// Reads every number of those columns that the file has, so that the checksums are compared.
void read_through(const hdf5::File& file, const std::vector<Column>& columns);

}  // namespace lockstep::record
