// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "device/device.hpp"
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

  static constexpr std::size_t places = 2;

  /// Copies the parts to the next of the two blocks of device memory, one after the other, each at
  /// a multiple of 256 bytes, and returns their addresses. Work that is enqueued on the compute
  /// stream after this call finds the parts there. They stay valid for work that is enqueued before
  /// the call after the next one. Waits only until the copy before the previous one is complete,
  /// because it used the same pinned buffer.
  template <std::size_t count>
  std::array<const std::byte*, count> bring(
      const std::array<std::span<const std::byte>, count>& parts) {
    std::array<const std::byte*, count> addresses{};
    bring(parts, addresses);
    return addresses;
  }

  /// Returns the index of the block that holds the last parts, and of the one for the next parts.
  std::size_t place() const { return current_; }
  std::size_t next_place() const { return (current_ + 1) % places; }

 private:
  void bring(std::span<const std::span<const std::byte>> parts,
             std::span<const std::byte*> addresses);

  struct Place {
    core::Buffer pinned, device;
    core::Event copied, used;
  };

  cudaStream_t compute_;
  core::Stream copies_;
  std::array<Place, places> places_;
  std::size_t current_ = 0;
};

}  // namespace lockstep::backend::cuda
