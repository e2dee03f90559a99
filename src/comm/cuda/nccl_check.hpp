#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// Throws `Error` (internal), naming the call and NCCL's reason, where `status` is not success.
void check_nccl(ncclResult_t status, std::string_view call);

/// "NCCL 2.28.9", of the library that runs.
std::string nccl_library_version();

ncclDataType_t nccl_type(core::DataType type);

}  // namespace lockstep::comm
