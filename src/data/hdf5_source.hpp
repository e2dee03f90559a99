// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "source.hpp"

namespace lockstep::data {

/// Opens the source of own images in an HDF5 file. Throws `Error`: usage if the request names no
/// file, input if the file does not have the layout that docs/options.md describes.
std::unique_ptr<Source> open_hdf5(const SourceRequest& request);

}  // namespace lockstep::data
