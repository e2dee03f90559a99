// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::core {

/// Unique owner of a C handle (an HDF5 id, a file descriptor, a CUDA stream). `Traits` provides
///   `using type = ...;`                     the type of the C handle,
///   `static type null() noexcept;`          the value of an empty handle,
///   `static void close(type) noexcept;`     releases the handle; logs errors and never throws.
/// Movable, not copyable.
template <class Traits>
class Handle {
 public:
  using type = typename Traits::type;

  Handle() noexcept = default;
  explicit Handle(type value) noexcept : value_(value) {}
  Handle(Handle&& other) noexcept : value_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  type get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ != Traits::null(); }

  /// Returns the handle and gives up ownership; the caller must close it.
  type release() noexcept { return std::exchange(value_, Traits::null()); }

  /// Closes the current handle, if any, and takes ownership of `value`.
  void reset(type value = Traits::null()) noexcept {
    if (value_ != Traits::null()) Traits::close(value_);
    value_ = value;
  }

 private:
  type value_ = Traits::null();
};

struct DescriptorTraits {
  using type = int;
  static type null() noexcept { return -1; }
  static void close(type descriptor) noexcept {
    if (::close(descriptor) != 0) log_warning("closing a file failed");
  }
};

/// Owner of a file descriptor (a file, a socket).
using Descriptor = Handle<DescriptorTraits>;

}  // namespace lockstep::core
