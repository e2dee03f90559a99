#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "device/alignment.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// Brings small blocks of host memory to the device while the device works: two places in
/// page-locked memory and two on the device, and a stream of its own for the copies. What the
/// compute stream waits for is a copy that began while the step before ran.
class Staging {
 public:
  /// For blocks of `bytes` at most.
  Staging(cudaStream_t compute, std::size_t bytes);

  /// Copies the parts, each to a multiple of 256 bytes, one behind the other; what is queued on the
  /// compute stream from here on finds them there. `release` must follow it.
  std::byte* bring(std::initializer_list<std::span<const std::byte>> parts);

  /// What was queued since `bring` is all that reads the block.
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
