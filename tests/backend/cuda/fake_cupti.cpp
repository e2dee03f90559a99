// Replaces CUPTI in tests: implements the functions that Lockstep uses. `fake_cupti_launch` is the
// execution of a kernel; it is recorded only while the recording is enabled, and returned by a
// flush. Its clock is that of the test.

#include <cstring>
#include <vector>

#include "backend/cuda/device/cupti_records.hpp"

using lockstep::backend::cuda::cupti::CompleteBuffer;
using lockstep::backend::cuda::cupti::concurrent_kernel;
using lockstep::backend::cuda::cupti::Kernel;
using lockstep::backend::cuda::cupti::Kind;
using lockstep::backend::cuda::cupti::no_more_records;
using lockstep::backend::cuda::cupti::RequestBuffer;
using lockstep::backend::cuda::cupti::Status;
using lockstep::backend::cuda::cupti::success;

namespace {

constexpr Status not_initialised = 15;
/// Bytes of a record: as in newer versions of CUPTI, more than Lockstep knows.
constexpr std::size_t stride = sizeof(Kernel) + 64;

RequestBuffer request = nullptr;
CompleteBuffer complete = nullptr;
bool is_enabled = false;
bool is_broken = false;
std::uint64_t now = 0;
std::vector<Kernel> pending;

}  // namespace

extern "C" {

void fake_cupti_launch(const Kernel* kernel) {
  if (is_enabled) pending.push_back(*kernel);
}
void fake_cupti_set_clock(std::uint64_t nanoseconds) { now = nanoseconds; }
void fake_cupti_break(bool broken) { is_broken = broken; }

Status cuptiActivityRegisterCallbacks(RequestBuffer request_, CompleteBuffer complete_) {
  request = request_;
  complete = complete_;
  return success;
}
Status cuptiActivityEnable(Kind kind) {
  if (is_broken || kind != concurrent_kernel) return not_initialised;
  is_enabled = true;
  return success;
}
Status cuptiActivityDisable(Kind) {
  is_enabled = false;
  return success;
}
Status cuptiActivityFlushAll(std::uint32_t) {
  // Several buffers, as when one is full.
  for (const Kernel& kernel : pending) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0, records = 0;
    request(&buffer, &bytes, &records);
    if (bytes < 2 * stride) return not_initialised;
    Kernel other = kernel;
    other.kind = concurrent_kernel + 1;  // a kind that Lockstep does not use
    std::memcpy(buffer, &other, sizeof(Kernel));
    std::memcpy(buffer + stride, &kernel, sizeof(Kernel));
    complete(nullptr, 0, buffer, bytes, 2 * stride);
  }
  pending.clear();
  return success;
}
Status cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, void** record) {
  std::uint8_t* const next =
      *record == nullptr ? buffer : static_cast<std::uint8_t*>(*record) + stride;
  if (next >= buffer + valid) return no_more_records;
  *record = next;
  return success;
}
Status cuptiGetTimestamp(std::uint64_t* nanoseconds) {
  *nanoseconds = now;
  return success;
}
Status cuptiGetResultString(Status status, const char** text) {
  *text = status == not_initialised ? "CUPTI_ERROR_NOT_INITIALIZED" : "CUPTI_SUCCESS";
  return success;
}
}
