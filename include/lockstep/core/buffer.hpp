#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lockstep::core {

/// Owner of zeroed host memory, aligned to 64 bytes (huge pages where the system gives them).
/// Views into it are spans; they do not own. Movable, not copyable.
class Buffer {
 public:
  static constexpr std::size_t alignment = 64;

  Buffer() = default;
  /// Throws `Error` with status `out_of_memory`, naming the bytes, where the system has no memory
  /// left.
  explicit Buffer(std::size_t bytes);
  /// Memory that `owner` keeps, for example shared with other processes; already zeroed and
  /// aligned.
  Buffer(std::span<std::byte> memory, std::shared_ptr<const void> owner);

  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_.get(); }

  /// The whole buffer as elements of type T (bytes / sizeof(T) of them).
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_.get()), bytes_ / sizeof(T)};
  }

 private:
  struct Release {
    void operator()(std::byte* data) noexcept;
    std::shared_ptr<const void> owner;  ///< null: the memory is the buffer's own
  };
  std::unique_ptr<std::byte[], Release> data_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::core
