#pragma once

#include "passes.hpp"

namespace lockstep::backend::cuda {

/// Whether the backward pass reads the output of the batch norm, for the mask of the ReLU.
enum class OutputRead { none, needed };

/// Return the memory traffic of a pass of the given structure.
MapTraffic forward_traffic(const BatchNormSetting& setting, PassStructure structure);
MapTraffic backward_traffic(const BatchNormSetting& setting, PassStructure structure,
                            OutputRead output);

}  // namespace lockstep::backend::cuda
