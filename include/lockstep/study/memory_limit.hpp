// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::study {

/// The memory that each rank may use.
struct MemoryLimit {
  std::uint64_t bytes = std::uint64_t{1} << 62;  ///< by default, more than any memory
  std::string source = "no limit is known";      ///< option or file
  bool is_given = false;  ///< by --memory-limit; otherwise the memory that is free
};

}  // namespace lockstep::study
