// SPDX-License-Identifier: BSD-3-Clause
#include "nccl_communicator.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <exception>
#include <thread>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
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

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& control, NcclCalls& calls,
                                   const NcclOptions& options)
    : control_(control), calls_(calls), options_(options) {
  open();
  calls_.communicators.push_back(this);
}

NcclCommunicator::~NcclCommunicator() {
  std::erase(calls_.communicators, this);
  if (comm_ == nullptr) return;
  // A rank that leaves because of an error must not wait for the others.
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  try {
    deregister();
    settle(calls_.finalize(comm_), "end communication");
    const ncclResult_t status = calls_.destroy(comm_);
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
      if (control_.rank() == 0) check_nccl(calls_.make_id(id), "ncclGetUniqueId");
    });
    comm::broadcast(control_, id);
    together(control_, [&] {
      settle(calls_.open(comm_, control_.size(), id, control_.rank(), options_.name),
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
    settle(calls_.register_window(comm_, memory, window_), what);
    if (window_ != nullptr) return;
  }
  settle(calls_.register_buffer(comm_, memory, registration_), what);
}

void NcclCommunicator::deregister() {
  constexpr std::string_view what = "release the gradients' memory";
  if (window_ != nullptr) settle(calls_.deregister_window(comm_, window_), what);
  if (registration_ != nullptr) settle(calls_.deregister_buffer(comm_, registration_), what);
  window_ = nullptr;
  registration_ = nullptr;
}

void NcclCommunicator::sum(void* data, std::size_t elements, core::DataType type,
                           cudaStream_t stream) {
  require_open();
  // A non-blocking call may enqueue its work from a thread of NCCL. Wait for it, because the work
  // that the caller enqueues next must follow it in the stream.
  settle(calls_.sum(data, elements, nccl_type(type), comm_, stream), "start a sum");
}

void NcclCommunicator::reduce(void* data, std::size_t elements, core::DataType type, int root,
                              cudaStream_t stream) {
  require_open();
  require_root(root, "sum");
  settle(calls_.reduce(data, elements, nccl_type(type), root, comm_, stream), "start a sum");
}

void NcclCommunicator::require_root(int root, std::string_view what) const {
  if (root >= 0 && root < control_.size()) return;
  core::fail(core::ExitStatus::internal, fmt::format("NCCL cannot {} on {}: there is no rank {}",
                                                     what, describe_rank(control_), root));
}

void NcclCommunicator::broadcast(void* data, std::size_t elements, core::DataType type, int root,
                                 cudaStream_t stream) {
  require_open();
  require_root(root, "broadcast");
  settle(calls_.broadcast(data, elements, nccl_type(type), root, comm_, stream),
         "start a broadcast");
}

void NcclCommunicator::finish(cudaStream_t stream) {
  Timeout timeout(options_.deadline);
  while (true) {
    const cudaError_t status = calls_.query(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) {
      abort();
      core::check_cuda(status, "waiting for a sum over the GPUs");
    }
    check();
    if (!timeout.pause()) fail_late("finish a sum");
  }
}

void NcclCommunicator::check() {
  require_open();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = calls_.state(comm_, state);
  if (asked != ncclSuccess) state = asked;
  if (state != ncclSuccess && state != ncclInProgress) fail(state, "communicate");
}

// NCCL first tells the work on the GPU to end, and then waits until no CUDA graph contains work of
// the communicator. The caller, which may own these graphs, must not wait for that.
void NcclCommunicator::abort() noexcept {
  if (comm_ == nullptr) return;
  static constexpr std::string_view consequence = "the GPU may wait for other ranks without end";
  try {
    abort_ = core::start_helper([&calls = calls_, comm = comm_](const std::stop_token&) {
      const ncclResult_t status = calls.abort(comm);
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
    const ncclResult_t asked = calls_.state(comm_, result);
    if (asked != ncclSuccess) result = asked;
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
  const std::string detail = calls_.last_error(comm_);
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
  for (NcclCommunicator* other : calls_.communicators) {
    if (other->failure_.empty()) other->failure_ = failure;
    other->abort();
  }
  core::fail(status, failure);
}

}  // namespace lockstep::comm
