#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cudnn_frontend {
class DeviceProperties;
}

namespace lockstep::backend::cuda {

/// A GPU as cuDNN reads it from JSON. Throws `Error` (usage) for what it cannot read.
std::shared_ptr<const cudnn_frontend::DeviceProperties> read_properties(std::string_view json);

/// JSON of a GPU that is present, as cuDNN sees it.
std::string write_properties(int device);

}  // namespace lockstep::backend::cuda
