// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cudnn_frontend {
class DeviceProperties;
}

namespace lockstep::backend::cuda {

/// Returns the device properties that cuDNN reads from a JSON device description. Throws `Error`
/// (usage) if cuDNN cannot read it.
std::shared_ptr<const cudnn_frontend::DeviceProperties> read_properties(std::string_view json);

/// Returns the properties of a GPU that is present, as JSON in cuDNN's format. Throws `Error`
/// (internal) if cuDNN fails.
std::string write_properties(int device);

}  // namespace lockstep::backend::cuda
