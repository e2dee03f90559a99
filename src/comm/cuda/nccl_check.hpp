#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// Throws `Error` (internal) with the name of the call and the error string of NCCL if `status` is
/// not ncclSuccess.
void check_nccl(ncclResult_t status, std::string_view call);

/// Returns the version of the NCCL library in use, for example "NCCL 2.28.9".
std::string nccl_library_version();

/// Returns the data type of NCCL that corresponds to `type`.
ncclDataType_t nccl_type(core::DataType type);

}  // namespace lockstep::comm
