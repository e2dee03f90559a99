// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/handle.hpp"

namespace lockstep::core {

/// A file of /proc or /sys that stays open and is read repeatedly. Reading allocates no memory.
class CounterFile {
 public:
  /// Opens the file for reading. If that fails, all readings are empty.
  explicit CounterFile(const std::filesystem::path& path);

  /// Returns 0, or the errno value of the constructor's attempt to open the file.
  int error_number() const { return error_number_; }

  /// Reads the current contents into `buffer` and returns the part that was read; empty if the file
  /// cannot be read.
  std::string_view read(std::span<char> buffer) const;

  /// Returns the number at the start of the file; nothing if there is none.
  std::optional<std::uint64_t> number() const;

 private:
  Descriptor file_;
  int error_number_ = 0;
};

/// Removes the next field from the front of `text` and returns it. Fields are separated by blanks,
/// tabs and colons; empty at the end of `text`.
std::string_view take_field(std::string_view& text);

/// Returns the number that `text` consists of; nothing if it is not an unsigned integer.
std::optional<std::uint64_t> parse_number(std::string_view text);

/// Returns the paths of the entries of a directory, sorted; none if it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory);

}  // namespace lockstep::core
