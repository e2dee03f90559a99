// SPDX-License-Identifier: BSD-3-Clause
// Creates every gradient transport and its reducers.

#include <fmt/format.h>

#include "cuda/nccl_transport.hpp"
#include "cuda/staged_transport.hpp"
#include "gpu_checks.hpp"
#include "host_transport.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "reducers/bucket_reducer.hpp"
#include "reducers/registry.hpp"

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
  const bool shares_gpus = find_shared_gpus(communicator, queue.uuid, options.allow_sharing);
  if (kind == TransportKind::staged) return make_staged_transport(communicator, queue);
  return make_nccl_transport(communicator, queue, shares_gpus);
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
  return make_bucket_reducer(gradients, options, buckets,
                             BucketTimestamps(timeline, buckets.count()));
}

}  // namespace lockstep::comm
