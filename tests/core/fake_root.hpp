// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::core::testing {

/// A temporary directory whose files replace those of /proc and /sys. The destructor deletes it.
class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = std::filesystem::temp_directory_path() / "lockstep-root-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~FakeRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes `text` to the file `name` in place, so that descriptors that are open read it.
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text << '\n';
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::core::testing
