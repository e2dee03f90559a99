#include "nccl_check.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

void check_nccl(ncclResult_t status, std::string_view call) {
  if (status == ncclSuccess) return;
  core::fail(core::ExitStatus::internal,
             fmt::format("{} failed ({}); NCCL_DEBUG=INFO in the environment says more", call,
                         ncclGetErrorString(status)));
}

std::string nccl_library_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

ncclDataType_t nccl_type(core::DataType type) {
  switch (type) {
    case core::DataType::float32: return ncclFloat32;
    case core::DataType::bfloat16: return ncclBfloat16;
    case core::DataType::float16: return ncclFloat16;
  }
  core::check(false, "unknown data type");
  return ncclFloat32;
}

}  // namespace lockstep::comm
