// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "data/images.hpp"
#include "lockstep/core/hdf5.hpp"

/// Parts of a file of own images.
namespace lockstep::data::hdf5_images {

namespace hdf5 = core::hdf5;
using Extents = std::vector<hsize_t>;

inline constexpr core::ImageShape shape{2, 3, 5};
inline constexpr std::size_t train_size = 7, test_size = 4;

/// Creates the dataset `path`, also if it exists, and its group.
inline void put(hid_t file, const std::string& path, hid_t type, const Extents& extents,
                const void* values) {
  const std::string group = path.substr(0, path.find('/'));
  if (group != path && H5Lexists(file, group.c_str(), H5P_DEFAULT) == 0) {
    hdf5::own<hdf5::Group>(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           "creating");
  }
  if (H5Lexists(file, path.c_str(), H5P_DEFAULT) > 0) H5Ldelete(file, path.c_str(), H5P_DEFAULT);
  const auto space = hdf5::own<hdf5::Space>(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), "creating");
  const auto dataset = hdf5::own<hdf5::Dataset>(
      H5Dcreate2(file, path.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      "creating");
  if (values == nullptr) return;
  hdf5::check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "writing");
}

inline void put_images(hid_t file, const std::string& path, const Extents& extents) {
  std::size_t bytes = 1;
  for (const hsize_t extent : extents) bytes *= extent;
  put(file, path, H5T_STD_U8LE, extents, random_bytes(bytes, bytes).data());
}

inline void put_labels(hid_t file, const std::string& path, std::vector<std::int64_t> labels) {
  put(file, path, H5T_NATIVE_INT64, {labels.size()}, labels.data());
}

inline void put_numbers(hid_t file, const std::string& path, std::vector<float> values) {
  put(file, path, H5T_NATIVE_FLOAT, {values.size()}, values.data());
}

inline void put_names(hid_t file, const std::string& text, std::size_t bytes) {
  put(file, "class_names", hdf5::fixed_text_type(bytes).get(), {text.size() / bytes}, text.data());
}

/// Writes a valid file: the label of image i is i mod 3.
inline void write_valid(hid_t file) {
  for (const auto& [group, size] : {std::pair("train", train_size), std::pair("test", test_size)}) {
    put_images(file, fmt::format("{}/images", group), {size, 2, 3, 5});
    std::vector<std::int64_t> labels(size);
    for (std::size_t i = 0; i < size; ++i) labels[i] = static_cast<std::int64_t>(i % 3);
    put_labels(file, fmt::format("{}/labels", group), labels);
  }
  put_names(file, std::string("cat\0\0dog\0\0horse", 15), 5);
  put_numbers(file, "mean", {0.25f, 0.5f});
  put_numbers(file, "std", {0.125f, 1});
}

}  // namespace lockstep::data::hdf5_images
