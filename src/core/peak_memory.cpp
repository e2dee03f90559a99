#include "lockstep/core/peak_memory.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "lockstep/core/handle.hpp"

namespace lockstep::core {

namespace {

struct DescriptorTraits {
  using type = int;
  static type null() noexcept { return -1; }
  static void close(type descriptor) noexcept { ::close(descriptor); }
};
using Descriptor = Handle<DescriptorTraits>;

/// Returns the peak of the kernel since it was last reset. Allocates no memory.
std::uint64_t kernel_peak() {
  std::array<char, 4096> text{};
  const Descriptor file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size() - 1) : 0;
  const std::string_view status(text.data(),
                                static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  constexpr std::string_view key = "VmHWM:";
  if (const auto found = status.find(key); found != std::string_view::npos) {
    return 1024 * std::strtoull(text.data() + found + key.size(), nullptr, 10);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return 1024 * static_cast<std::uint64_t>(usage.ru_maxrss);
}

}  // namespace

void PeakMemory::begin_interval() {
  earlier_ = std::max(earlier_, kernel_peak());
  const Descriptor file(::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  // 5 resets only the peak (proc(5)). Without permission the peak since the start remains valid.
  if (file && ::write(file.get(), "5", 1) != 1) return;
}

std::uint64_t PeakMemory::interval() const { return kernel_peak(); }

std::uint64_t PeakMemory::total() const { return std::max(earlier_, kernel_peak()); }

}  // namespace lockstep::core
