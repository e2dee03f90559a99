// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_directory.hpp"

namespace lockstep::core::test {

/// A temporary directory whose files replace those of /proc and /sys. The destructor deletes it.
class FakeRoot : public TemporaryDirectory {
 public:
  /// Writes `text` to the file `name` in place, so that descriptors that are open read it.
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text << '\n';
  }
};

}  // namespace lockstep::core::test
