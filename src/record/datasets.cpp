// SPDX-License-Identifier: BSD-3-Clause
#include "datasets.hpp"

#include <fmt/format.h>
#include <hdf5_hl.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/core/error.hpp"
#include "schema.hpp"

namespace lockstep::record {

using hdf5::check;
using hdf5::own;

namespace {

/// Returns the index of the alternative of `Values` that has this type.
std::size_t index_of(ElementType type) {
  return std::min(static_cast<std::size_t>(type), std::variant_size_v<Values> - 1);
}

/// Returns the type in the file. `text_bytes`: length of the texts of a dataset of type text.
hdf5::Type file_type(ElementType type, std::size_t text_bytes) {
  if (type == ElementType::short_text) return hdf5::fixed_text_type(short_text_bytes);
  if (type == ElementType::text) {
    return hdf5::fixed_text_type(std::max<std::size_t>(text_bytes, 1));
  }
  const std::array numbers{H5T_STD_I64LE, H5T_STD_U64LE, H5T_IEEE_F64LE};
  return own<hdf5::Type>(H5Tcopy(numbers.at(index_of(type))), "copying a type");
}

/// Returns the number of bytes of the longest text.
std::size_t longest(std::span<const std::string> texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes = std::max(bytes, text.size());
  return bytes;
}

const Dimension& find(const Dimensions& dimensions, std::string_view name) {
  const auto found = std::ranges::find(dimensions, name, &Dimension::name);
  core::check(found != dimensions.end(), "a dataset has a dimension of unknown size");
  return *found;
}

std::string scale_path(std::string_view dimension) { return fmt::format("/{}", dimension); }

bool exists(const hdf5::File& file, const std::string& path) {
  const htri_t found = H5Lexists(file.get(), path.c_str(), H5P_DEFAULT);
  check(found < 0 ? -1 : 0, "checking for a dataset");
  return found > 0;
}

hdf5::Dataset open(const hdf5::File& file, const std::string& path) {
  return own<hdf5::Dataset>(H5Dopen2(file.get(), path.c_str(), H5P_DEFAULT), "opening a dataset");
}

/// Creates the dataset. If it is not a scale itself, attaches its scales, which must exist.
void create(const hdf5::File& file, const DatasetSchema& schema, const Dimensions& dimensions,
            std::size_t text_bytes) {
  std::vector<hsize_t> size, limit, chunk;
  for (const std::string& name : schema.dimensions) {
    const Dimension& dimension = find(dimensions, name);
    size.push_back(dimension.size);
    const bool grows = dimension.growing_chunk > 0;
    limit.push_back(grows ? H5S_UNLIMITED : dimension.size);
    chunk.push_back(grows ? dimension.growing_chunk : dimension.size);
  }
  const int rank = static_cast<int>(size.size());
  const auto space = own<hdf5::Space>(H5Screate_simple(rank, size.data(), limit.data()),
                                      "creating the shape of a dataset");
  const hdf5::Properties creation = hdf5::creation_properties(H5P_DATASET_CREATE);
  check(H5Pset_chunk(creation.get(), rank, chunk.data()), "chunking a dataset");
  check(H5Pset_fletcher32(creation.get()), "adding checksums");
  if (schema.type == ElementType::float64) {
    const double missing = std::numeric_limits<double>::quiet_NaN();
    check(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &missing), "setting the fill value");
  }
  const hdf5::Type type = file_type(schema.type, text_bytes);
  const auto dataset =
      own<hdf5::Dataset>(H5Dcreate2(file.get(), schema.path.c_str(), type.get(), space.get(),
                                    H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                         "creating a dataset");
  hdf5::set_attribute(dataset.get(), "units", schema.units);
  std::string long_name = schema.description;
  std::erase(long_name, '`');  // Markdown of docs/run-file.md
  hdf5::set_attribute(dataset.get(), "long_name", long_name);
  if (H5Tget_class(type.get()) == H5T_STRING) {  // xarray otherwise reads bytes
    hdf5::set_attribute(dataset.get(), "_Encoding", std::string("utf-8"));
  }
  if (schema.is_scale()) {
    return check(H5DSset_scale(dataset.get(), schema.dimensions.front().c_str()),
                 "creating a dimension scale");
  }
  for (unsigned i = 0; i < schema.dimensions.size(); ++i) {
    const hdf5::Dataset scale = open(file, scale_path(schema.dimensions[i]));
    check(H5DSattach_scale(dataset.get(), scale.get(), i), "attaching a scale");
  }
}

/// Creates the scale of a dimension. Writes its texts, or the numbers from 0, if its size is fixed.
void create_scale(const hdf5::File& file, const std::string& dimension,
                  const Dimensions& dimensions) {
  const DatasetSchema& schema = run_file_schema().dataset(scale_path(dimension));
  create(file, schema, dimensions, longest(schema.values));
  if (find(dimensions, dimension).growing_chunk > 0) return;
  const auto numbers = counted(find(dimensions, dimension).size);
  if (schema.values.empty()) {
    write_columns(file, {{schema.path, numbers}});
  } else {
    write_columns(file, {{schema.path, schema.values}});
  }
}

/// Creates a dataset of texts with the length of the longest one and the sizes of its scales.
void create_for(const hdf5::File& file, const DatasetSchema& schema, const Column& column) {
  Dimensions dimensions;
  for (const std::string& name : schema.dimensions) {
    const hsize_t size = hdf5::extents(open(file, scale_path(name))).at(0);
    dimensions.push_back({name, size});
  }
  const auto texts = std::get<std::span<const std::string>>(column.values);
  create(file, schema, dimensions, longest(texts));
}

/// Writes the values to the selected elements of the dataset.
void write(const hdf5::Dataset& dataset, const hdf5::Space& space, const Column& column) {
  const hsize_t count = column.size();
  if (count == 0) return;
  const auto memory =
      own<hdf5::Space>(H5Screate_simple(1, &count, nullptr), "creating the shape of values");
  const auto write_from = [&](hid_t type, const void* data) {
    check(H5Dwrite(dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, data),
          "writing a dataset");
  };
  if (const auto* texts = std::get_if<std::span<const std::string>>(&column.values)) {
    const auto type = own<hdf5::Type>(H5Dget_type(dataset.get()), "reading a type");
    const std::size_t bytes = H5Tget_size(type.get());
    core::check(longest(*texts) <= bytes, "a text is longer than those of its dataset");
    std::string padded;
    for (const std::string& text : *texts) {
      padded.append(text).append(bytes - text.size(), '\0');
    }
    return write_from(type.get(), padded.data());
  }
  const std::array native{H5T_NATIVE_INT64, H5T_NATIVE_UINT64, H5T_NATIVE_DOUBLE};
  const hid_t type = native.at(column.values.index());
  std::visit([&](const auto& values) { write_from(type, values.data()); }, column.values);
}

/// Extends the dataset by `rows` rows and writes them if there is a column.
void append(const hdf5::Dataset& dataset, hsize_t first_row, hsize_t rows, const Column* column) {
  std::vector<hsize_t> shape = hdf5::extents(dataset);
  shape[0] = first_row + rows;
  check(H5Dset_extent(dataset.get(), shape.data()), "extending a dataset");
  if (column != nullptr) write(dataset, hdf5::select_rows(dataset, first_row, rows), *column);
}

void check_column(const Column& column, std::string_view dimension, const Dimensions& sizes) {
  const DatasetSchema& schema = run_file_schema().dataset(column.path);
  const auto fail_unless = [&](bool is_true, std::string_view problem) {
    if (is_true) return;
    core::fail(
        core::ExitStatus::internal,
        fmt::format("internal error: the values of {} {}; please report it", column.path, problem));
  };
  fail_unless(schema.dimensions.front() == dimension,
              fmt::format("are not indexed by {}", dimension));
  fail_unless(column.values.index() == index_of(schema.type), "have another type than the dataset");
  std::size_t elements = 1;
  for (const std::string& name : schema.dimensions) elements *= find(sizes, name).size;
  fail_unless(column.size() == elements, "do not fit the dataset");
}

/// Reads the dataset in parts of at most 16 MiB.
void read_through(const hdf5::Dataset& dataset) {
  const auto type = own<hdf5::Type>(H5Dget_type(dataset.get()), "reading a type");
  const std::vector<hsize_t> shape = hdf5::extents(dataset);
  const hsize_t bytes = std::accumulate(shape.begin(), shape.end(),
                                        hsize_t{H5Tget_size(type.get())}, std::multiplies<>());
  if (bytes == 0) return;
  const hsize_t row_bytes = bytes / shape[0];
  const hsize_t part = std::max<hsize_t>(1, (hsize_t{1} << 24) / row_bytes);
  std::vector<std::byte> buffer;
  for (hsize_t row = 0; row < shape[0]; row += part) {
    const hsize_t rows = std::min(part, shape[0] - row);
    buffer.resize(rows * row_bytes);
    hdf5::read_rows(dataset, type.get(), row, rows, buffer.data());
  }
}

}  // namespace

void create_datasets(const hdf5::File& file, const std::string& path,
                     const Dimensions& dimensions) {
  for (const DatasetSchema* schema : run_file_schema().group(path)) {
    for (const std::string& name : schema->dimensions) {
      if (!exists(file, scale_path(name))) create_scale(file, name, dimensions);
    }
    if (schema->type != ElementType::text) create(file, *schema, dimensions, 0);
  }
}

std::size_t check_rows(std::string_view dimension, const Columns& columns,
                       const Dimensions& sizes) {
  std::size_t count = 0;
  for (const Column& column : columns) {
    check_column(column, dimension, sizes);
    count += column.size();
  }
  for (const DatasetSchema* schema : run_file_schema().along(dimension)) {
    const bool is_given = std::ranges::find(columns, schema->path, &Column::path) != columns.end();
    if (is_given || !schema->is_required) continue;
    core::fail(core::ExitStatus::internal,
               fmt::format("internal error: the values of {} are missing; please report it",
                           schema->path));
  }
  return count;
}

void write_columns(const hdf5::File& file, const Columns& columns) {
  for (const Column& column : columns) {
    const DatasetSchema& schema = run_file_schema().dataset(column.path);
    if (schema.type == ElementType::text && !exists(file, schema.path)) {
      create_for(file, schema, column);
    }
    const hdf5::Dataset dataset = open(file, schema.path);
    write(dataset, own<hdf5::Space>(H5Dget_space(dataset.get()), "reading a shape"), column);
  }
}

void append_rows(const hdf5::File& file, std::string_view dimension, hsize_t first_row,
                 hsize_t rows, const Columns& columns) {
  for (const DatasetSchema* schema : run_file_schema().along(dimension)) {
    if (!exists(file, schema->path)) continue;
    const auto column = std::ranges::find(columns, schema->path, &Column::path);
    append(open(file, schema->path), first_row, rows, column == columns.end() ? nullptr : &*column);
  }
}

void append_scale(const hdf5::File& file, std::string_view dimension, hsize_t first_row,
                  std::span<const std::int64_t> values) {
  const std::string path = scale_path(dimension);
  const Column column{path, values};
  append(open(file, path), first_row, values.size(), &column);
}

void read_through(const hdf5::File& file) {
  for (const hdf5::Link& link : hdf5::links(file.get())) {
    const hdf5::Object object = hdf5::open_object(file.get(), link.name);
    if (H5Iget_type(object.get()) == H5I_DATASET) {
      read_through(open(file, link.name));
      continue;
    }
    for (const hdf5::Link& inner : hdf5::links(object.get())) {
      read_through(open(file, fmt::format("{}/{}", link.name, inner.name)));
    }
  }
}

}  // namespace lockstep::record
