// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <tuple>

#include "build.hpp"
#include "checkpoint_file.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

using hdf5::check;
using hdf5::own;

namespace {

/// A dataset of the file: a tensor, or PyTorch's `num_batches_tracked` (a scalar with an empty
/// shape).
struct Entry {
  std::string group, name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
  std::int64_t count = 0;
  bool is_count = false;
};

/// Returns all datasets of the file, in the order of their paths.
std::vector<Entry> entries(std::span<const Tensor> tensors, const Counters& counters) {
  std::vector<Entry> all;
  constexpr std::string_view mean = ".running_mean";
  for (const Tensor& tensor : tensors) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    core::check(elements == static_cast<std::int64_t>(tensor.values.size()),
                "a tensor's shape does not fit its values");
    all.push_back({tensor.group, tensor.name, tensor.shape, tensor.values});
    for (const auto& [name, value] : counters) {
      if (name != "batches_tracked" || tensor.group != "state" || !tensor.name.ends_with(mean)) {
        continue;
      }
      const auto stem = tensor.name.substr(0, tensor.name.size() - mean.size());
      all.push_back({tensor.group, stem + ".num_batches_tracked", {}, {}, value, true});
    }
  }
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.group, a.name) < std::tie(b.group, b.name);
  });
  return all;
}

void write_entry(const hdf5::Group& group, const Entry& entry) {
  const std::vector<hsize_t> shape(entry.shape.begin(), entry.shape.end());
  const auto space = own<hdf5::Space>(
      shape.empty() ? H5Screate(H5S_SCALAR)
                    : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
      "creating the shape of a tensor");
  const hdf5::Properties creation = hdf5::creation_properties(H5P_DATASET_CREATE);
  const auto dataset = own<hdf5::Dataset>(
      H5Dcreate2(group.get(), entry.name.c_str(), entry.is_count ? H5T_STD_I64LE : H5T_IEEE_F32LE,
                 space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "creating a tensor");
  const void* values = entry.is_count ? static_cast<const void*>(&entry.count)
                                      : static_cast<const void*>(entry.values.data());
  if (!entry.is_count && entry.values.empty()) return;
  check(H5Dwrite(dataset.get(), entry.is_count ? H5T_NATIVE_INT64 : H5T_NATIVE_FLOAT, H5S_ALL,
                 H5S_ALL, H5P_DEFAULT, values),
        "writing a tensor");
}

void write_file(const fs::path& path, const std::vector<Entry>& all,
                const CheckpointHeader& header) {
  hdf5::File file = hdf5::create_file(path);
  CheckpointDigest digest(header);
  hdf5::Group group;
  std::string open_group;
  for (const Entry& entry : all) {
    if (!group || entry.group != open_group) {
      group = hdf5::new_group(file, entry.group);
      open_group = entry.group;
    }
    write_entry(group, entry);
    if (entry.is_count) {
      digest.add(entry.group, entry.name, entry.count);
    } else {
      digest.add(entry.group, entry.name, entry.shape, entry.values);
    }
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
  const std::vector<Entry> all = entries(tensors, counters);
  write_and_rename(path, mode, [&](const fs::path& temporary, const Descriptor&) {
    writing(temporary, [&] { write_file(temporary, all, {counters, texts}); });
    sync(temporary);
    try {
      read_checkpoint(temporary, {}, Verify::required);
    } catch (const core::Error& error) {
      fail_output("reading back", temporary, error.what(), EIO);
    }
  });
}

}  // namespace lockstep::record
