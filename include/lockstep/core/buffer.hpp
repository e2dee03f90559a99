// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lockstep::core {

/// Owns a block of memory that is zero-initialised and aligned to 64 bytes. Spans into the buffer
/// are non-owning views. Movable, not copyable.
class Buffer {
 public:
  static constexpr std::size_t alignment = 64;

  Buffer() = default;
  /// Allocates `bytes` of host memory; for 2 MiB and more it requests transparent huge pages.
  /// Throws `Error` (out_of_memory), with the size in the message, if the allocation fails.
  explicit Buffer(std::size_t bytes);
  /// Allocates memory like the constructor, but writes nothing to buffers of 2 MiB and more. The
  /// kernel allocates a page when a thread first writes to it, on the NUMA node of this thread.
  /// Reads before the first write return zeros from a page that stays in the cache, so do not time
  /// them.
  static Buffer untouched(std::size_t bytes);
  /// Wraps existing memory, for example shared, page-locked or device memory. `owner` keeps the
  /// memory alive and releases it. The memory must already be zeroed and aligned.
  Buffer(std::span<std::byte> memory, std::shared_ptr<const void> owner);

  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_.get(); }

  /// Returns the whole buffer as bytes() / sizeof(T) elements of type T.
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_.get()), bytes_ / sizeof(T)};
  }

 private:
  struct Release {
    void operator()(std::byte*) noexcept { owner.reset(); }
    std::shared_ptr<const void> owner;
  };
  std::unique_ptr<std::byte[], Release> data_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::core
