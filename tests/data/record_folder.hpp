// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/images.hpp"
#include "expect_error.hpp"

namespace lockstep::data {

using Bytes = std::vector<std::uint8_t>;

/// Returns `count` records of random 3 x 32 x 32 pixels, which depend only on `index`. The label
/// bytes of record i are i mod c for each c of `label_classes`.
inline Bytes random_records(std::size_t count, std::uint64_t index,
                            const std::vector<std::size_t>& label_classes) {
  const std::size_t record_bytes = label_classes.size() + 3072;
  Bytes bytes = random_bytes(count * record_bytes, index);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t label = 0; label < label_classes.size(); ++label) {
      bytes[i * record_bytes + label] = static_cast<std::uint8_t>(i % label_classes[label]);
    }
  }
  return bytes;
}

/// Test with a temporary folder of the files of a dataset. The destructor deletes the folder.
class RecordFolderTest : public testing::Test {
 protected:
  /// `name`: name of the dataset in `--data`; `advice`: text in each message about its files.
  RecordFolderTest(std::string name, std::string advice)
      : name_(std::move(name)), advice_(std::move(advice)) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::temp_directory_path() /
             fmt::format("lockstep-{}-{}-{}", name_, test->name(), getpid());
    std::filesystem::create_directories(folder);
  }
  ~RecordFolderTest() override { std::filesystem::remove_all(folder); }

  void write(const std::string& file, const Bytes& bytes) const {
    std::ofstream(folder / file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  DataOptions options() const { return {.source = name_ + ":" + folder.string()}; }

  /// Fails the test unless `load` and `sizes` both throw an input error whose message contains all
  /// `parts` and the advice to the user.
  void expect_refused(std::vector<std::string> parts) const {
    parts.insert(parts.end(), {advice_, "--data synthetic"});
    expect_error(core::ExitStatus::input, parts, [this] { load(options()); });
    expect_error(core::ExitStatus::input, parts, [this] { sizes(options()); });
  }

  /// Moves all files to the folder `archive_folder` in a new folder `above`, and returns the
  /// latter.
  std::filesystem::path move_files(const std::string& archive_folder) const {
    const std::filesystem::path above = folder / "above";
    std::filesystem::create_directories(above / archive_folder);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::filesystem::rename(entry.path(), above / archive_folder / entry.path().filename());
    }
    return above;
  }

  std::filesystem::path folder;

 private:
  std::string name_, advice_;
};

/// Fails the test unless image `sample` of `set` has the pixels at `expected`.
inline void expect_pixels(const Dataset& set, std::size_t sample, Bytes::const_iterator expected) {
  const auto pixels = set.image(sample);
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), expected)) << sample;
}

}  // namespace lockstep::data
