// SPDX-License-Identifier: BSD-3-Clause
#include "staging.hpp"

#include <algorithm>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

Staging::Staging(cudaStream_t compute, std::size_t bytes)
    : compute_(compute), copies_(core::make_stream()) {
  for (Place& place : places_) {
    place = {core::pinned_buffer(bytes), core::device_buffer(bytes, "staging of batches"),
             core::make_event(), core::make_event()};
  }
}

void Staging::bring(std::span<const std::span<const std::byte>> parts,
                    std::span<const std::byte*> addresses) {
  check_cuda(cudaEventRecord(places_[current_].used.get(), compute_), "ordering copies");
  current_ = next_place();
  const Place& place = places_[current_];
  check_cuda(cudaEventSynchronize(place.copied.get()), "waiting for an earlier batch's copy");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    core::check(bytes + parts[i].size() <= place.pinned.bytes(), "a block fits its place");
    std::ranges::copy(parts[i], place.pinned.data() + bytes);
    addresses[i] = place.device.data() + bytes;
    bytes += aligned(parts[i].size());
  }
  bytes = std::min(bytes, place.pinned.bytes());
  check_cuda(cudaStreamWaitEvent(copies_.get(), place.used.get(), 0), "ordering copies");
  check_cuda(cudaMemcpyAsync(place.device.data(), place.pinned.data(), bytes,
                             cudaMemcpyHostToDevice, copies_.get()),
             "copying a batch to the GPU");
  check_cuda(cudaEventRecord(place.copied.get(), copies_.get()), "ordering copies");
  check_cuda(cudaStreamWaitEvent(compute_, place.copied.get(), 0), "ordering copies");
}

}  // namespace lockstep::backend::cuda
