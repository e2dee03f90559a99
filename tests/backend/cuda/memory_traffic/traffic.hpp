// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Counts the bytes that a kernel reads and writes in device memory, on the host. The files
// *_cases.cpp are compiled with -fsanitize=thread, so that the compiler calls a function before
// each access to memory; traffic.cpp defines these functions, and they count the accesses to
// registered tensors. Each access that the source states is counted, because the optimisations that
// merge or split accesses are off. The device compiler may merge accesses of one thread to the same
// address.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::backend::cuda::kernels::test {

struct Free {
  void operator()(std::byte* data) const;
};

/// Memory aligned to 256 bytes, as cudaMalloc returns it; all bytes are 0.
using Memory = std::unique_ptr<std::byte[], Free>;
Memory allocate(std::int64_t bytes);

/// An array in device memory.
template <class T>
class Tensor {
 public:
  explicit Tensor(std::int64_t elements)
      : bytes_(elements * static_cast<std::int64_t>(sizeof(T))), memory_(allocate(bytes_)) {}
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
  Memory memory_;
};

/// A tensor, and the bytes that the kernel is expected to read and to write in it.
struct Access {
  std::string tensor;   ///< name in the documentation of the kernel
  const void* address;  ///< first byte
  std::int64_t bytes;   ///< size of the tensor
  std::int64_t read = 0;
  std::int64_t written = 0;
  std::string note;       ///< for the documentation, e.g. "once per row"
  bool is_table = false;  ///< so small that repeated reads are served by caches
  /// Largest number of 32-byte sectors that warps access, relative to the accessed bytes. 1: the
  /// accesses of a warp are contiguous.
  double sector_ratio = 1;
};

/// Each byte of the tensor is read once.
template <class T>
Access reads(std::string name, const Tensor<T>& tensor) {
  return {std::move(name), tensor.data(), tensor.bytes(), tensor.bytes(), 0, {}};
}
/// Each byte of the tensor is written once.
template <class T>
Access writes(std::string name, const Tensor<T>& tensor) {
  return {std::move(name), tensor.data(), tensor.bytes(), 0, tensor.bytes(), {}};
}
/// Each byte of the tensor is read once and written once.
template <class T>
Access updates(std::string name, const Tensor<T>& tensor) {
  return {std::move(name), tensor.data(), tensor.bytes(), tensor.bytes(), tensor.bytes(), {}};
}
/// `bytes` are read in the tensor, as `note` says.
template <class T>
Access reads(std::string name, const Tensor<T>& tensor, std::int64_t bytes, std::string note) {
  return {std::move(name), tensor.data(), tensor.bytes(), bytes, 0, std::move(note)};
}
/// `bytes` are read in total, from caches.
template <class T>
Access table(std::string name, const Tensor<T>& tensor, std::int64_t bytes) {
  Access access = reads(std::move(name), tensor, bytes, {});
  access.is_table = true;
  return access;
}
/// The accesses of a warp are not contiguous; `ratio`: see Access::sector_ratio.
inline Access strided(Access access, double ratio) {
  access.sector_ratio = ratio;
  return access;
}

/// Bytes that a kernel accessed in one tensor.
struct Counted {
  std::int64_t read = 0, written = 0;
  std::int64_t sector_bytes = 0;  ///< 32 x sectors, summed over the accesses of all warps
};

/// What one launch of a kernel accessed.
struct Traffic {
  std::string kernel;   ///< type in the source, e.g. "Add<float>"
  std::string variant;  ///< other than the documented one, e.g. "without residual"
  std::vector<Access> expected;
  std::vector<Counted> counted;  ///< of the tensors in `expected`
};

/// Counts the accesses between construction and `finish`. At most one object exists at a time.
class TrafficCounter {
 public:
  /// `team`: number of threads that work on one index; 1, 32 or 256.
  TrafficCounter(const std::vector<Access>& accesses, int team);
  ~TrafficCounter();
  TrafficCounter(const TrafficCounter&) = delete;
  TrafficCounter& operator=(const TrafficCounter&) = delete;

  /// Declares that the following accesses belong to the index `index`. Indices must ascend.
  void begin_index(std::int64_t index);
  std::vector<Counted> finish();
};

template <class Kernel>
constexpr int team_size = 1;
template <class Kernel>
requires(Kernel::team > 0) constexpr int team_size<Kernel> = Kernel::team;

/// Runs `kernel` on the host and counts what it accesses.
template <class Kernel>
Traffic count_traffic(std::string name, const Kernel& kernel, std::vector<Access> expected,
                      std::string variant = {}) {
  TrafficCounter counter(expected, team_size<Kernel>);
  for (std::int64_t index = 0; index < kernel.count(); ++index) {
    counter.begin_index(index);
    kernel(index);
  }
  std::vector<Counted> counted = counter.finish();
  return {std::move(name), std::move(variant), std::move(expected), std::move(counted)};
}

// The launches of all kernels. Each function is in the file NAME_cases.cpp.
std::vector<Traffic> batch_norm_cases();
std::vector<Traffic> batch_norm_gradient_cases();
std::vector<Traffic> network_cases();
std::vector<Traffic> seeded_cases();
std::vector<Traffic> step_cases();

}  // namespace lockstep::backend::cuda::kernels::test
