#include "nccl_transport.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "../rank_name.hpp"
#include "device_sweep.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "nccl_check.hpp"
#include "nccl_communicator.hpp"
#include "nccl_reducer.hpp"

namespace lockstep::comm {

namespace {

constexpr const char* what_for = "gradients";

void set_if_unset(const char* variable, const std::string& value) {
  constexpr int keep = 0;
  ::setenv(variable, value.c_str(), keep);
}

/// Returns zeroed memory that NCCL can register; an empty buffer if NCCL cannot allocate it.
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

class NcclTransport final : public GradientTransport {
 public:
  NcclTransport(Communicator& control, const core::DeviceQueue& queue, GpuUse use,
                std::unique_ptr<NcclCalls> calls)
      : control_(control),
        queue_(queue),
        calls_(std::move(calls)),
        registration_(control.size() == 1 || use == GpuUse::shared ? Registration::none
                                                                   : Registration::wanted) {
    if (use == GpuUse::shared) prepare_shared_gpus(control);
  }

  /// All ranks allocate their memory before NCCL connects them: otherwise a rank without memory
  /// would leave the others waiting in NCCL.
  core::Buffer allocate(std::size_t bytes) override {
    core::Buffer buffer;
    if (registration_ == Registration::wanted && bytes > 0) {
      together(control_, [&] { buffer = registrable_memory(bytes); });
      const auto said = control_.all_gather(buffer.bytes() == bytes ? "has" : "lacks");
      if (std::ranges::count(said, "lacks") > 0) {
        buffer = {};
        registration_ = Registration::none;
      }
    }
    together(control_, [&] {
      if (buffer.bytes() == 0) buffer = core::device_buffer(bytes, what_for);
    });
    return buffer;
  }

  std::unique_ptr<GradientReducer> make_reducer(const core::GradientArray& gradients,
                                                const ReducerOptions& options,
                                                core::Timeline& timeline) override {
    return make_nccl_reducer(control_, *calls_, queue_, gradients, options, timeline,
                             registration_);
  }

  core::StatisticsAllReduce& statistics_all_reduce() override {
    if (statistics_all_reduce_ == nullptr)
      statistics_all_reduce_ = make_nccl_statistics_all_reduce(control_, *calls_, queue_);
    return *statistics_all_reduce_;
  }

  /// Uses one communicator for all sizes, and memory that is registered like that of the gradients.
  std::vector<SweepRow> sweep(const SweepOptions& options) override {
    const std::size_t most = sweep_sizes(options).back() / sizeof(float);
    const core::Buffer memory = allocate(most * core::size_of(options.communication_type));
    NcclCommunicator communicator(control_, *calls_, {.name = "lockstep-sweep"});
    if (registration_ == Registration::wanted)
      communicator.register_memory({memory.data(), memory.bytes()});
    return sweep_device(
        control_, memory, options, {name(TransportKind::nccl), options.communication_type},
        [&](std::size_t elements) -> DeviceSum {
          return [&, elements] {
            const auto stream = static_cast<cudaStream_t>(queue_.stream);
            communicator.sum(memory.data(), elements, options.communication_type, stream);
            communicator.finish(stream);
          };
        });
  }

  std::string library_version() const override { return nccl_library_version(); }

 private:
  Communicator& control_;
  core::DeviceQueue queue_;
  std::unique_ptr<NcclCalls> calls_;
  Registration registration_;
  std::unique_ptr<core::StatisticsAllReduce> statistics_all_reduce_;
};

}  // namespace

void prepare_shared_gpus(Communicator& control) {
  set_if_unset("NCCL_HOSTID", fmt::format("{}-rank{}", host_name(), control.rank()));
  if (control.local_size() == control.size()) set_if_unset("NCCL_SOCKET_IFNAME", "lo");
  const char* const mine = std::getenv("NCCL_HOSTID");
  auto ids = control.all_gather(mine == nullptr ? "" : mine);
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return;
  throw AgreedError(
      core::ExitStatus::usage,
      fmt::format("ranks that share a GPU have the same NCCL_HOSTID '{}'; unset it, or give "
                  "each rank one of its own",
                  *twice),
      0, control.rank());
}

std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& control,
                                                       const core::DeviceQueue& queue, GpuUse use,
                                                       std::unique_ptr<NcclCalls> calls) {
  return std::make_unique<NcclTransport>(control, queue, use, std::move(calls));
}

}  // namespace lockstep::comm
