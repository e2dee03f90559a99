#include "run_file_layout.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <limits>

#include "lockstep/core/error.hpp"

namespace lockstep::record {

using hdf5::check;
using hdf5::own;

const std::vector<Column>& training_columns() {
  using enum Kind;
  static const std::vector<Column> columns{
      {"/step", integer, "1", "step of this file, from 1", {"step"}},
      {"/rank", integer, "1", "rank", {"rank"}},
      {"/phase", text, "1", "part of a training step", {"phase"}},
      {"/epoch", integer, "1", "epoch, from 1", {"epoch"}},

      {"/ranks/rank", integer, "1", "rank", {"rank"}},
      {"/ranks/local_rank", integer, "1", "rank among those of its host", {"rank"}},
      {"/ranks/host", integer, "1", "index of the host of the rank, from 0", {"rank"}},
      {"/ranks/hostname", text, "1", "name of the host of the rank", {"rank"}},
      {"/ranks/cpu_list", text, "1", "processors the rank may run on", {"rank"}},
      {"/ranks/device_name", text, "1", "model of the processor or GPU", {"rank"}},
      {"/ranks/device_uuid", text, "1", "identity of the GPU, empty on CPUs", {"rank"}},
      {"/ranks/pci_bus_id", text, "1", "bus address of the GPU, empty on CPUs", {"rank"}},
      {"/ranks/memory_bytes", bytes, "byte", "memory of the device", {"rank"}},

      {"/steps/epoch", integer, "1", "epoch of the step, from 1", {"step"}},
      {"/steps/learning_rate", real, "1", "learning rate", {"step"}},
      {"/steps/loss", real, "1", "mean loss over the global batch", {"step"}},
      {"/steps/images", integer, "1", "images over all ranks", {"step"}},
      {"/steps/phase_seconds", real, "s", "time in each phase", {"step", "rank", "phase"}},

      {"/epochs/train_loss", real, "1", "mean training loss, as trained", {"epoch"}},
      {"/epochs/train_accuracy", real, "1", "training accuracy, as trained", {"epoch"}},
      {"/epochs/test_loss", real, "1", "test loss, NaN where not evaluated", {"epoch"}},
      {"/epochs/test_accuracy", real, "1", "test accuracy, NaN where not evaluated", {"epoch"}},
      {"/epochs/energy_joules",
       real,
       "J",
       "energy the device took in the epoch's steps, NaN where it does not say",
       {"epoch", "rank"}},
      {"/epochs/utilisation",
       real,
       "1",
       "share of the last moments of the epoch's steps in which the device computed, by its own "
       "account, NaN where it does not say",
       {"epoch", "rank"}},
      {"/epochs/memory_used_bytes",
       real,
       "byte",
       "memory of the device in use at the end of the epoch's steps, NaN where it does not say",
       {"epoch", "rank"}},
      {"/epochs/seconds", real, "s", "wall clock of the epoch's steps", {"epoch"}},
      {"/epochs/evaluation_seconds", real, "s", "wall clock of the evaluation", {"epoch"}},
      {"/epochs/parameter_hash", short_text, "1", "hash of the parameters on all ranks", {"epoch"}},
  };
  return columns;
}

const std::vector<Column>& bucket_columns() {
  using enum Kind;
  static const std::vector<Column> columns{
      {"/bucket", integer, "1", "bucket of gradients, from 0 in the order of backward", {"bucket"}},
      {"/buckets/bytes", bytes, "byte", "bytes each rank contributes, as communicated", {"bucket"}},
      {"/buckets/start_seconds",
       real,
       "s",
       "start of the bucket's all-reduce since the step's start",
       {"step", "rank", "bucket"}},
      {"/buckets/end_seconds",
       real,
       "s",
       "end of the bucket's all-reduce since the step's start",
       {"step", "rank", "bucket"}},
  };
  return columns;
}

const std::vector<Column>& allreduce_columns() {
  using enum Kind;
  static const std::vector<Column> columns{
      {"/message", integer, "1", "row of the all-reduce sweep, from 0", {"message"}},
      {"/repeat", integer, "1", "repeat of a measurement, from 0", {"repeat"}},
      {"/allreduce/way", text, "1", "how the sum was made", {"message"}},
      {"/allreduce/bytes",
       bytes,
       "byte",
       "bytes each rank contributes, as communicated",
       {"message"}},
      {"/allreduce/seconds", real, "s", "time of the slowest rank", {"message", "repeat"}},
      {"/allreduce/wrong", bytes, "1", "elements with a wrong sum", {"message"}},
  };
  return columns;
}

const std::vector<Column>& ladder_columns() {
  using enum Kind;
  static const std::vector<Column> columns{
      {"/point", integer, "1", "point of the batch ladder, from 0", {"point"}},
      {"/ladder/batch_per_rank", integer, "1", "images per rank and step", {"point"}},
      {"/ladder/status", short_text, "1", "ok, or out_of_memory", {"point"}},
      {"/ladder/epoch_seconds", real, "s", "time of an epoch", {"point"}},
      {"/ladder/training_seconds",
       real,
       "s",
       "time of an epoch without waiting for data",
       {"point"}},
      {"/ladder/images_per_second", real, "s-1", "images per second", {"point"}},
      {"/ladder/predicted_bytes", bytes, "byte", "memory that was planned", {"point"}},
      {"/ladder/peak_bytes", bytes, "byte", "memory that was used at most", {"point"}},
      {"/ladder/steps", integer, "1", "steps that were timed", {"point"}},
      {"/ladder/is_extrapolated",
       integer,
       "1",
       "1 if the times are scaled from fewer steps than an epoch has, else 0",
       {"point"}},
  };
  return columns;
}

namespace {

hdf5::Type file_type(Kind kind) {
  if (kind == Kind::text) return hdf5::text_type();
  if (kind == Kind::short_text) return hdf5::fixed_text_type(short_text_bytes);
  const hid_t type = kind == Kind::integer ? H5T_STD_I64LE
                     : kind == Kind::bytes ? H5T_STD_U64LE
                                           : H5T_IEEE_F64LE;
  return own<hdf5::Type>(H5Tcopy(type), "choosing a type");
}

const Dimension& find(const Dimensions& dimensions, std::string_view name) {
  const auto found = std::find_if(dimensions.begin(), dimensions.end(),
                                  [&](const Dimension& one) { return one.name == name; });
  core::check(found != dimensions.end(), "a column has a dimension of unknown size");
  return *found;
}

bool is_scale(const Column& column) { return column.path.rfind('/') == 0; }

hdf5::Dataset open(const hdf5::File& file, const std::string& path) {
  return own<hdf5::Dataset>(H5Dopen2(file.get(), path.c_str(), H5P_DEFAULT), "opening a dataset");
}

hdf5::Dataset create_dataset(const hdf5::File& file, const Column& column,
                             const Dimensions& dimensions) {
  std::vector<hsize_t> size, limit, chunk;
  for (const std::string_view name : column.dimensions) {
    const Dimension& dimension = find(dimensions, name);
    size.push_back(dimension.size);
    limit.push_back(dimension.grows ? H5S_UNLIMITED : dimension.size);
    chunk.push_back(dimension.chunk);
  }
  const int rank = static_cast<int>(size.size());
  const auto space =
      own<hdf5::Space>(H5Screate_simple(rank, size.data(), limit.data()), "describing a dataset");
  const hdf5::Properties creation = hdf5::creation_properties(H5P_DATASET_CREATE);
  // HDF5 stores variable-length texts in a heap, to which filters do not apply.
  if (column.kind != Kind::text) {
    check(H5Pset_chunk(creation.get(), rank, chunk.data()), "chunking a dataset");
    check(H5Pset_fletcher32(creation.get()), "adding checksums");
  }
  if (column.kind == Kind::real) {
    // Elements that were never written are NaN.
    const double missing = std::numeric_limits<double>::quiet_NaN();
    check(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &missing), "choosing a fill value");
  }
  return own<hdf5::Dataset>(
      H5Dcreate2(file.get(), std::string(column.path).c_str(), file_type(column.kind).get(),
                 space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "creating a dataset");
}

template <class T>
hdf5::Type memory_type();
template <>
hdf5::Type memory_type<std::int64_t>() {
  return own<hdf5::Type>(H5Tcopy(H5T_NATIVE_INT64), "choosing a type");
}
template <>
hdf5::Type memory_type<std::uint64_t>() {
  return own<hdf5::Type>(H5Tcopy(H5T_NATIVE_UINT64), "choosing a type");
}
template <>
hdf5::Type memory_type<double>() {
  return own<hdf5::Type>(H5Tcopy(H5T_NATIVE_DOUBLE), "choosing a type");
}

hsize_t elements(const std::vector<hsize_t>& shape) {
  hsize_t product = 1;
  for (const hsize_t extent : shape) product *= extent;
  return product;
}

template <class T>
void write_whole(const hdf5::File& file, const char* path, const std::vector<T>& values) {
  const hdf5::Dataset dataset = open(file, path);
  core::check(values.size() == elements(hdf5::extents(dataset)), "a column has another length");
  check(
      H5Dwrite(dataset.get(), memory_type<T>().get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
      "writing a dataset");
}

/// Returns a hyperslab selection of the `count` rows from row `first` on.
hdf5::Space select_rows(const hdf5::Dataset& dataset, std::vector<hsize_t> shape, hsize_t first,
                        hsize_t count) {
  auto space = own<hdf5::Space>(H5Dget_space(dataset.get()), "asking for a shape");
  std::vector<hsize_t> start(shape.size(), 0);
  start[0] = first;
  shape[0] = count;
  check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, shape.data(),
                            nullptr),
        "selecting rows");
  return space;
}

void write_rows(const hdf5::File& file, const char* path, hsize_t first, hsize_t rows,
                const hdf5::Type& type, const void* values, std::size_t count) {
  const hdf5::Dataset dataset = open(file, path);
  std::vector<hsize_t> shape = hdf5::extents(dataset);
  shape[0] = first + rows;
  check(H5Dset_extent(dataset.get(), shape.data()), "extending a dataset");
  const hdf5::Space space = select_rows(dataset, shape, first, rows);
  const hsize_t length = count;
  core::check(H5Sget_select_npoints(space.get()) == static_cast<hssize_t>(count),
              "an epoch's rows have another length than its steps");
  if (count == 0) return;
  const auto memory =
      own<hdf5::Space>(H5Screate_simple(1, &length, nullptr), "describing an epoch's rows");
  check(H5Dwrite(dataset.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, values),
        "writing an epoch's rows");
}

}  // namespace

void create_columns(const hdf5::File& file, const std::vector<Column>& columns,
                    const Dimensions& dimensions) {
  for (const Column& column : columns) {
    const hdf5::Dataset dataset = create_dataset(file, column, dimensions);
    hdf5::set_attribute(dataset.get(), "units", std::string(column.units));
    hdf5::set_attribute(dataset.get(), "long_name", std::string(column.long_name));
    if (is_scale(column)) {
      check(H5DSset_scale(dataset.get(), column.dimensions.front().data()), "making a scale");
      continue;
    }
    for (unsigned i = 0; i < column.dimensions.size(); ++i) {
      const hdf5::Dataset scale = open(file, std::string("/").append(column.dimensions[i]));
      check(H5DSattach_scale(dataset.get(), scale.get(), i), "attaching a scale");
    }
  }
}

void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::int64_t>& values) {
  write_whole(file, path, values);
}

void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::uint64_t>& values) {
  write_whole(file, path, values);
}

void write_column(const hdf5::File& file, const char* path, const std::vector<double>& values) {
  write_whole(file, path, values);
}

void write_column(const hdf5::File& file, const char* path,
                  const std::vector<std::string>& values) {
  std::vector<const char*> texts;
  for (const std::string& value : values) texts.push_back(value.c_str());
  const hdf5::Dataset dataset = open(file, path);
  core::check(texts.size() == elements(hdf5::extents(dataset)), "a column has another length");
  check(
      H5Dwrite(dataset.get(), hdf5::text_type().get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()),
      "writing a dataset");
}

void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<std::int64_t>& values) {
  write_rows(file, path, first_row, rows, memory_type<std::int64_t>(), values.data(),
             values.size());
}

void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<std::uint64_t>& values) {
  write_rows(file, path, first_row, rows, memory_type<std::uint64_t>(), values.data(),
             values.size());
}

void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::vector<double>& values) {
  write_rows(file, path, first_row, rows, memory_type<double>(), values.data(), values.size());
}

void append_rows(const hdf5::File& file, const char* path, hsize_t first_row, hsize_t rows,
                 const std::string& value) {
  core::check(value.size() <= short_text_bytes && rows == 1, "a text is too long for its column");
  std::string padded = value;
  padded.resize(short_text_bytes, '\0');
  write_rows(file, path, first_row, rows, hdf5::fixed_text_type(short_text_bytes), padded.data(),
             1);
}

void read_through(const hdf5::File& file, const std::vector<Column>& columns) {
  std::vector<std::byte> buffer;
  for (const Column& column : columns) {
    if (column.kind == Kind::text) continue;
    const hdf5::Dataset dataset = open(file, std::string(column.path));
    const hdf5::Type type = file_type(column.kind);
    const std::vector<hsize_t> shape = hdf5::extents(dataset);
    if (elements(shape) == 0) continue;
    const hsize_t row_elements = elements(shape) / shape[0];
    const hsize_t row_bytes = row_elements * H5Tget_size(type.get());
    const hsize_t slice = std::max<hsize_t>(1, (hsize_t{1} << 24) / row_bytes);
    for (hsize_t row = 0; row < shape[0]; row += slice) {
      const hsize_t rows = std::min(slice, shape[0] - row);
      buffer.resize(rows * row_bytes);
      const hdf5::Space space = select_rows(dataset, shape, row, rows);
      const hsize_t length = rows * row_elements;
      const auto memory =
          own<hdf5::Space>(H5Screate_simple(1, &length, nullptr), "describing rows");
      check(
          H5Dread(dataset.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, buffer.data()),
          "reading back");
    }
  }
}

}  // namespace lockstep::record
