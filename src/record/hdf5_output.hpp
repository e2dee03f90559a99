// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <functional>

#include "lockstep/core/hdf5.hpp"

namespace lockstep::record {

namespace hdf5 = core::hdf5;

/// Calls `work`. If it throws `hdf5::Failure`, throws `Error` (output) with the path.
void writing(const std::filesystem::path& path, const std::function<void()>& work);

}  // namespace lockstep::record
