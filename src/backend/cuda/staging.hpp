#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "device/alignment.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// Copies small blocks of host memory to the device while the device computes, with double
/// buffering: two buffers in pinned host memory, two in device memory, and a separate stream for
/// the copies. The copy of a block can thus overlap with the previous step; the compute stream
/// waits only for its end.
class Staging {
 public:
  /// `bytes`: the largest size of a block.
  Staging(cudaStream_t compute, std::size_t bytes);

  /// Copies the parts to one block of device memory, one after the other, each at a multiple of 256
  /// bytes, and returns its address. Work that is enqueued on the compute stream after this call
  /// finds the parts there. Waits only until the copy before the previous one is complete, because
  /// it used the same pinned buffer. `release` must be called after the work that reads the block
  /// is enqueued.
  std::byte* bring(std::initializer_list<std::span<const std::byte>> parts);

  /// Marks the block as free for reuse after the work that is now enqueued on the compute stream.
  void release();

 private:
  struct Place {
    core::Buffer pinned, device;
    core::Event copied, used;
  };

  cudaStream_t compute_;
  core::Stream copies_;
  std::array<Place, 2> places_;
  std::size_t current_ = 0;
};

}  // namespace lockstep::backend::cuda
