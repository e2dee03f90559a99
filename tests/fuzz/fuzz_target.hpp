// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"

// What the fuzz targets share. Each target defines LLVMFuzzerTestOneInput, which libFuzzer or the
// driver mutate.cpp calls.

namespace lockstep::fuzz {

/// Calls `read`. Aborts if it throws anything except `Error` with the status `expected` and a
/// message of one line; a message about options contains text of the user, which may have several
/// lines. Returns whether it returned.
template <class Read>
bool returns_or_fails(core::ExitStatus expected, Read read) {
  try {
    read();
    return true;
  } catch (const core::Error& error) {
    const bool has_lines = std::string_view(error.what()).find('\n') != std::string_view::npos;
    if (error.status() != expected) std::abort();
    if (has_lines && expected != core::ExitStatus::usage) std::abort();
    return false;
  }
}

/// A private directory in memory (/dev/shm), deleted when the process ends.
class MemoryDirectory {
 public:
  MemoryDirectory() {
    std::string pattern = "/dev/shm/lockstep-fuzz-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~MemoryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MemoryDirectory(const MemoryDirectory&) = delete;
  MemoryDirectory& operator=(const MemoryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes the file `name` and returns its path.
  std::filesystem::path write(const std::string& name, std::span<const std::uint8_t> bytes) const {
    std::filesystem::path file = path_ / name;
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool is_open = descriptor >= 0;
    if (!is_open || ::write(descriptor, bytes.data(), bytes.size()) != std::ssize(bytes) ||
        ::close(descriptor) != 0) {
      std::abort();
    }
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::fuzz
