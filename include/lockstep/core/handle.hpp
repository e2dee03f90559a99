#pragma once

#include <utility>

namespace lockstep::core {

/// The one owner of a C handle (an HDF5 id, a descriptor, a stream). `Traits` gives
///   `using type = ...;`                     the C handle,
///   `static type null() noexcept;`          the value that owns nothing,
///   `static void close(type) noexcept;`     releases; logs what goes wrong, never throws.
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

  /// Gives the handle away; the caller closes it.
  type release() noexcept { return std::exchange(value_, Traits::null()); }

  /// Closes what is held and takes `value`.
  void reset(type value = Traits::null()) noexcept {
    if (value_ != Traits::null()) Traits::close(value_);
    value_ = value;
  }

 private:
  type value_ = Traits::null();
};

}  // namespace lockstep::core
