// SPDX-License-Identifier: BSD-3-Clause
#include "nccl_communicator.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread.hpp"

namespace lockstep::comm {

namespace {

/// Polling with a timeout: yields the core between polls at first, and sleeps for 0.1 ms later.
class Timeout {
 public:
  explicit Timeout(std::chrono::milliseconds limit) : limit_(limit) {}

  /// Waits before the next poll. Returns false once the timeout has passed, but not before
  /// `least_polls` polls, so that a process that was suspended meanwhile still polls again.
  bool pause() {
    const auto waited = Clock::now() - begin_;
    if (++polls_ > least_polls && waited > limit_) return false;
    if (waited < std::chrono::milliseconds(2)) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int least_polls = 100;

  Clock::time_point begin_ = Clock::now();
  std::chrono::milliseconds limit_;
  int polls_ = 0;
};

constexpr int root = 0;  ///< of sums and broadcasts

/// Throws `Error` (internal) with the name of the call and the error string of NCCL if `status` is
/// not ncclSuccess.
void check_nccl(ncclResult_t status, std::string_view call) {
  if (status == ncclSuccess) return;
  core::fail(core::ExitStatus::internal,
             fmt::format("{} failed ({}); NCCL_DEBUG=INFO in the environment says more", call,
                         ncclGetErrorString(status)));
}

int version_number() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

/// Returns the data type of NCCL that corresponds to `type`.
ncclDataType_t nccl_type(core::DataType type) {
  switch (type) {
    case core::DataType::float32: return ncclFloat32;
    case core::DataType::bfloat16: return ncclBfloat16;
    case core::DataType::float16: return ncclFloat16;
  }
  core::check(false, "unknown data type");
  return ncclFloat32;
}

}  // namespace

core::Buffer registrable_memory(std::size_t bytes) {
  void* data = nullptr;
  if (ncclMemAlloc(&data, bytes) != ncclSuccess || data == nullptr) {
    static_cast<void>(cudaGetLastError());  // clears the error for later calls
    return {};
  }
  std::shared_ptr<const void> owner(data, [](const void* held) {
    if (ncclMemFree(const_cast<void*>(held)) != ncclSuccess)
      core::log_warning("ncclMemFree failed");
  });
  core::check_cuda(cudaMemset(data, 0, bytes), "cudaMemset");
  // The other streams of this program do not wait for the legacy stream, which executes cudaMemset.
  core::check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
  return {{static_cast<std::byte*>(data), bytes}, std::move(owner)};
}

std::string nccl_library_version() {
  const int version = version_number();
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclCommunicator::NcclCommunicator(Communicator& control, NcclGroup& group,
                                   const NcclOptions& options)
    : control_(control), group_(group), options_(options) {
  open();
  group_.communicators.push_back(this);
}

NcclCommunicator::~NcclCommunicator() {
  std::erase(group_.communicators, this);
  if (comm_ == nullptr) return;
  // A rank that leaves because of an error must not wait for the others.
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  try {
    deregister();
    settle(ncclCommFinalize(comm_), "end communication");
    const ncclResult_t status = ncclCommDestroy(comm_);
    if (status != ncclSuccess && status != ncclInProgress)
      core::log_warning(fmt::format("ncclCommDestroy: {}", ncclGetErrorString(status)));
  } catch (const std::exception& error) {
    core::log_warning(error.what());
  }
}

void NcclCommunicator::open() {
  try {
    ncclUniqueId id{};
    together(control_, [&] {
      core::require_library("NCCL", static_cast<std::size_t>(version_number()),
                            LOCKSTEP_OLDEST_NCCL);
      if (control_.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    });
    comm::broadcast(control_, id);
    together(control_, [&] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      config.commName = options_.name;
      settle(ncclCommInitRankConfig(&comm_, control_.size(), id, control_.rank(), &config),
             "connect the GPUs");
    });
  } catch (...) {
    abort();
    throw;
  }
}

void NcclCommunicator::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return;
  std::string mine;
  is_registering_ = true;
  try {
    try_register(memory);
  } catch (const core::Error& error) {
    mine = error.what();
  }
  is_registering_ = false;
  std::string first;
  for (const std::string& failure : all_gather(control_, mine)) {
    if (first.empty()) first = failure;
  }
  if (first.empty()) return;
  // An NCCL communicator remains in its error state, and all ranks must use the same kind of
  // memory: all of them create a new communicator.
  if (control_.rank() == 0)
    core::log_warning(first + " (going on with slower copies of gradients)");
  abort();
  if (abort_.joinable()) abort_.join();
  failure_.clear();
  open();
}

void NcclCommunicator::try_register(std::span<std::byte> memory) {
  constexpr std::string_view what = "register the gradients' memory";
  require_open();
  if (control_.local_size() == control_.size()) {
    settle(ncclCommWindowRegister(comm_, memory.data(), memory.size(), &window_,
                                  NCCL_WIN_COLL_SYMMETRIC),
           what);
    if (window_ != nullptr) return;
  }
  settle(ncclCommRegister(comm_, memory.data(), memory.size(), &registration_), what);
}

std::string_view NcclCommunicator::registration() const {
  if (window_ != nullptr) return "window";
  return registration_ != nullptr ? "buffer" : "none";
}

void NcclCommunicator::deregister() {
  constexpr std::string_view what = "release the gradients' memory";
  if (window_ != nullptr) settle(ncclCommWindowDeregister(comm_, window_), what);
  if (registration_ != nullptr) settle(ncclCommDeregister(comm_, registration_), what);
  window_ = nullptr;
  registration_ = nullptr;
}

void NcclCommunicator::sum(void* data, std::size_t elements, core::DataType type,
                           cudaStream_t stream) {
  require_open();
  // A non-blocking call may enqueue its work from a thread of NCCL. Wait for it, because the work
  // that the caller enqueues next must follow it in the stream.
  settle(ncclAllReduce(data, data, elements, nccl_type(type), ncclSum, comm_, stream),
         "start a sum");
}

void NcclCommunicator::reduce(void* data, std::size_t elements, core::DataType type,
                              cudaStream_t stream) {
  require_open();
  settle(ncclReduce(data, data, elements, nccl_type(type), ncclSum, root, comm_, stream),
         "start a sum");
}

void NcclCommunicator::broadcast(void* data, std::size_t elements, core::DataType type,
                                 cudaStream_t stream) {
  require_open();
  settle(ncclBroadcast(data, data, elements, nccl_type(type), root, comm_, stream),
         "start a broadcast");
}

void NcclCommunicator::finish(cudaStream_t stream) {
  Timeout timeout(options_.deadline);
  while (true) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) {
      abort();
      core::check_cuda(status, "waiting for a sum over the GPUs");
    }
    throw_if_failed();
    if (!timeout.pause()) fail_late("finish a sum");
  }
}

void NcclCommunicator::throw_if_failed() {
  require_open();
  const ncclResult_t state = query_state();
  if (state != ncclSuccess && state != ncclInProgress) fail(state, "communicate");
}

ncclResult_t NcclCommunicator::query_state() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t status = ncclCommGetAsyncError(comm_, &state);
  return status != ncclSuccess ? status : state;
}

// NCCL first tells the work on the GPU to end, and then waits until no CUDA graph contains work of
// the communicator. The caller, which may own these graphs, must not wait for that.
void NcclCommunicator::abort() noexcept {
  if (comm_ == nullptr) return;
  static constexpr std::string_view consequence = "the GPU may wait for other ranks without end";
  try {
    abort_ = core::start_helper([comm = comm_](const std::stop_token&) {
      const ncclResult_t status = ncclCommAbort(comm);
      if (status != ncclSuccess && status != ncclInProgress)
        core::log_warning(fmt::format("ncclCommAbort failed; {}", consequence));
    });
  } catch (const core::Error& error) {
    core::log_warning(fmt::format("{}; NCCL is not aborted, and {}", error.what(), consequence));
  }
  comm_ = nullptr;
  window_ = nullptr;
  registration_ = nullptr;
}

void NcclCommunicator::settle(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess) result = ncclInProgress;  // the asynchronous part may still fail
  Timeout timeout(options_.deadline);
  while (result == ncclInProgress) {
    result = query_state();
    if (result == ncclInProgress && !timeout.pause()) fail_late(what);
  }
  if (result != ncclSuccess) fail(result, what);
}

void NcclCommunicator::require_open() const {
  if (comm_ != nullptr) return;
  core::fail(core::ExitStatus::internal,
             failure_.empty() ? "NCCL was stopped on " + describe_rank(control_) : failure_);
}

void NcclCommunicator::fail(ncclResult_t result, std::string_view what) {
  std::string reason = ncclGetErrorString(result);
  reason = reason.substr(0, reason.find(" (run with"));  // our message has the same advice
  const char* const last = ncclGetLastError(comm_);
  const std::string detail = last == nullptr ? "" : last;
  // NCCL quotes the message of the CUDA runtime (CUDACHECK in its checks.h).
  const bool memory_is_full = detail.find("out of memory") != std::string::npos;
  if (!detail.empty()) reason += ": " + detail.substr(0, detail.find('\n'));
  give_up(fmt::format("NCCL could not {} on {} ({}); look for a rank or a host that failed first; "
                      "NCCL_DEBUG=INFO in the environment says more",
                      what, describe_rank(control_), reason),
          memory_is_full ? core::ExitStatus::out_of_memory : core::ExitStatus::internal);
}

void NcclCommunicator::fail_late(std::string_view what) {
  give_up(fmt::format(
      "NCCL did not {} within {:.3g} s on {}; a rank, a GPU or the network between "
      "them does not answer; NCCL_DEBUG=INFO in the environment says more",
      what, std::chrono::duration<double>(options_.deadline).count(), describe_rank(control_)));
}

// One CUDA graph may contain work of several communicators, and the GPU must end all of it. The
// program goes on after a failed registration.
void NcclCommunicator::give_up(const std::string& failure, core::ExitStatus status) {
  failure_ = failure;
  abort();
  if (is_registering_) core::fail(status, failure);
  for (NcclCommunicator* other : group_.communicators) {
    if (other->failure_.empty()) other->failure_ = failure;
    other->abort();
  }
  core::fail(status, failure);
}

}  // namespace lockstep::comm
