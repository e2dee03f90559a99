// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "files.hpp"

namespace lockstep::record {

/// Returns all values of the dataset `path`. Throws if the dataset cannot be read or a checksum
/// does not match.
inline std::vector<double> read_doubles(const hdf5::File& file, const char* path) {
  const auto dataset =
      hdf5::own<hdf5::Dataset>(H5Dopen2(file.get(), path, H5P_DEFAULT), "opening a dataset");
  std::size_t elements = 1;
  for (const hsize_t extent : hdf5::extents(dataset)) elements *= extent;
  std::vector<double> values(elements);
  hdf5::check(
      H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
      "reading a dataset");
  return values;
}

}  // namespace lockstep::record
