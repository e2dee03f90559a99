// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/gradient_transport.hpp"

#include <fmt/format.h>

#include "gpu_sharing.hpp"
#include "lockstep/comm/agreement.hpp"
#include "transports.hpp"

#ifdef LOCKSTEP_HAS_CUDA
#include "cuda/nccl_transport.hpp"
#endif

namespace lockstep::comm {

namespace {

TransportKind choose_kind(TransportKind wanted, const core::DeviceQueue& queue) {
  if (wanted == TransportKind::automatic)
    return queue.is_host() ? TransportKind::mpi : TransportKind::nccl;
  if (queue.is_host() == (wanted == TransportKind::mpi)) return wanted;
  core::fail(core::ExitStatus::usage,
             queue.is_host()
                 ? fmt::format("transport {} carries the gradients of GPUs, but this run computes "
                               "on CPUs; use mpi",
                               core::name(wanted))
                 : "transport mpi carries gradients in the hosts' memory, but this run computes on "
                   "GPUs; use nccl, or staged");
}

#ifdef LOCKSTEP_HAS_CUDA
std::unique_ptr<GradientTransport> make_gpu_transport(Communicator& communicator,
                                                      const core::DeviceQueue& queue,
                                                      TransportKind kind, GpuUse allowed) {
  const GpuUse use = find_gpu_use(communicator, queue.uuid, allowed);
  if (kind == TransportKind::staged) return make_staged_transport(communicator, queue);
  return make_nccl_transport(communicator, queue, use);
}
#endif

}  // namespace

std::span<const core::NamedValue<TransportKind>> named_values(TransportKind) {
  static constexpr std::array<core::NamedValue<TransportKind>, 4> values{
      {{TransportKind::automatic, "auto", "mpi on CPUs, nccl on GPUs"},
       {TransportKind::mpi, "mpi", "CPU ranks"},
       {TransportKind::nccl, "nccl", "GPUs"},
       {TransportKind::staged, "staged", "GPUs, by MPI through host memory"}}};
  return values;
}

std::unique_ptr<GradientTransport> make_gradient_transport(Communicator& communicator,
                                                           const core::DeviceQueue& queue,
                                                           const TransportOptions& options) {
  TransportKind kind = TransportKind::automatic;
  together(communicator, [&] { kind = choose_kind(options.kind, queue); });
  if (kind == TransportKind::mpi) return make_host_transport(communicator);
#ifdef LOCKSTEP_HAS_CUDA
  return make_gpu_transport(communicator, queue, kind,
                            options.allow_sharing ? GpuUse::shared : GpuUse::own);
#else
  fail_together(
      communicator, core::ExitStatus::usage,
      fmt::format("this build has no transport {}, as it was made without CUDA; configure "
                  "with --preset cuda, or use --device cpu",
                  core::name(kind)));
#endif
}

std::unique_ptr<GradientReducer> GradientTransport::make_reducer(
    const core::GradientArray& gradients, const ReducerOptions& requested,
    core::Timeline& timeline) {
  ReducerOptions options = requested;
  BucketPartition buckets = BucketPartition::without_buckets(gradients.elements);
  together(communicator_, [&] {
    options.algorithm = algorithm_of(requested);
    check_options(gradients, options);
    buckets = partition_gradients(gradients.elements, communicator_.size(), options);
  });
  if (buckets.count() == 0) return make_empty_reducer(gradients.elements);
  return std::make_unique<BucketReducer>(
      make_bucket_transport(gradients, options, buckets,
                            BucketTimestamps(timeline, buckets.count())),
      find_reducer(options.kind).start);
}

void check_device_type(const core::GradientArray& gradients, const ReducerOptions& options) {
  if (gradients.type == options.gradient_type) return;
  core::fail(core::ExitStatus::usage,
             fmt::format("gradients on a GPU are communicated in the data type that they have: "
                         "they are {} and cannot be communicated as {}",
                         core::name(gradients.type), core::name(options.gradient_type)));
}

}  // namespace lockstep::comm
