// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/checkpoint_writer.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "checkpoint_file.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/provenance.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

using hdf5::check;
using hdf5::own;

namespace {

/// Datasets of the file by group and name, in the order of their paths: tensors, and PyTorch's
/// `num_batches_tracked`, which are scalars.
using Entries =
    std::map<std::pair<std::string, std::string>, std::variant<const Tensor*, std::int64_t>>;

Entries entries(std::span<const Tensor> tensors, const Counters& counters) {
  Entries all;
  constexpr std::string_view mean = ".running_mean";
  for (const Tensor& tensor : tensors) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    core::check(elements == static_cast<std::int64_t>(tensor.values.size()),
                "a tensor's shape does not fit its values");
    const bool is_new = all.try_emplace({tensor.group, tensor.name}, &tensor).second;
    core::check(is_new, "two tensors have the same name");
    if (tensor.group != "state" || !tensor.name.ends_with(mean)) continue;
    const auto stem = tensor.name.substr(0, tensor.name.size() - mean.size());
    for (const auto& [name, value] : counters) {
      if (name == "batches_tracked") all[{tensor.group, stem + ".num_batches_tracked"}] = value;
    }
  }
  return all;
}

void write_dataset(const hdf5::Group& group, const std::string& name,
                   std::span<const std::int64_t> extents, hid_t file_type, hid_t memory_type,
                   const void* values) {
  const std::vector<hsize_t> shape(extents.begin(), extents.end());
  const auto space = own<hdf5::Space>(
      shape.empty() ? H5Screate(H5S_SCALAR)
                    : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
      "creating the shape of a tensor");
  const hdf5::Properties creation = hdf5::creation_properties(H5P_DATASET_CREATE);
  const auto dataset =
      own<hdf5::Dataset>(H5Dcreate2(group.get(), name.c_str(), file_type, space.get(), H5P_DEFAULT,
                                    creation.get(), H5P_DEFAULT),
                         "creating a tensor");
  if (H5Sget_simple_extent_npoints(space.get()) == 0) return;
  check(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
        "writing a tensor");
}

void write_file(const fs::path& path, const Entries& all, const CheckpointHeader& header) {
  hdf5::File file = hdf5::create_file(path);
  CheckpointDigest digest(header);
  hdf5::Group group;
  std::string open_group;
  for (const auto& [entry, value] : all) {
    const auto& [group_name, name] = entry;
    if (!group || group_name != open_group) group = hdf5::new_group(file, group_name);
    open_group = group_name;
    if (const auto* count = std::get_if<std::int64_t>(&value)) {
      write_dataset(group, name, {}, H5T_STD_I64LE, H5T_NATIVE_INT64, count);
      digest.add(group_name, name, *count);
      continue;
    }
    const Tensor& tensor = *std::get<const Tensor*>(value);
    write_dataset(group, name, tensor.shape, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
                  tensor.values.data());
    digest.add(group_name, name, tensor.shape, tensor.values);
  }
  for (const auto& [name, value] : header.counters) hdf5::set_attribute(file.get(), name, value);
  for (const auto& [name, value] : header.texts) hdf5::set_attribute(file.get(), name, value);
  hdf5::set_attribute(file.get(), "format", std::string(checkpoint_format));
  hdf5::set_attribute(file.get(), "format_version", checkpoint_version);
  hdf5::set_attribute(file.get(), "software_version", std::string(this_build().version));
  hdf5::set_attribute(file.get(), "digest", digest.hex());
  group.reset();
  hdf5::close(std::move(file));
}

}  // namespace

void write_checkpoint(const fs::path& path, std::span<const Tensor> tensors,
                      const Counters& counters, const Texts& texts, OverwriteMode mode) {
  require_place(path);
  const Entries all = entries(tensors, counters);
  write_and_rename(path, mode, [&](const fs::path& temporary, const Descriptor&) {
    writing(temporary, [&] { write_file(temporary, all, {counters, texts}); });
    sync(temporary);
    try {
      read_checkpoint(temporary, {}, Verify::required);
    } catch (const core::Error& error) {
      fail_output("reading back", temporary, EIO, error.what());
    }
  });
}

}  // namespace lockstep::record
