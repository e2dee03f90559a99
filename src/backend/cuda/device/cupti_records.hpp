#pragma once

#include <cstddef>
#include <cstdint>

// The part of the CUPTI interface that is used, declared here because the headers of CUPTI are not
// installed on every machine with CUDA.
namespace lockstep::backend::cuda::cupti {

/// Status of a call. `success` and `no_more_records` are the values of CUPTI_SUCCESS and
/// CUPTI_ERROR_MAX_LIMIT_REACHED.
using Status = int;
inline constexpr Status success = 0, no_more_records = 12;

/// Kind of a record: CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL.
using Kind = int;
inline constexpr Kind concurrent_kernel = 10;

inline constexpr std::size_t record_alignment = 8;

/// The beginning of a kernel record (CUpti_ActivityKernel4 to CUpti_ActivityKernel10, which differ
/// only after it). Times are in nanoseconds on the clock of `cuptiGetTimestamp`; 0 if unknown.
struct alignas(8) Kernel {
  Kind kind;
  std::uint8_t cache_configuration;
  std::uint8_t shared_memory_configuration;
  std::uint16_t registers;  ///< per thread
  std::int32_t partitioned_cache_requested, partitioned_cache_executed;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;  ///< bytes per block
  std::uint32_t local_per_thread, local_total;
  std::uint32_t correlation;
  std::int64_t grid_id;
  const char* name;  ///< mangled; valid as long as CUPTI is loaded
};

extern "C" {
/// Provides an empty buffer for records.
using RequestBuffer = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records);
/// Takes back a buffer of which `valid` bytes have records.
using CompleteBuffer = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                                std::size_t bytes, std::size_t valid);
}

}  // namespace lockstep::backend::cuda::cupti
