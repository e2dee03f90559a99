// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/checkpoint_writer.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"
#include "test_files.hpp"
#include "weights.hpp"

/// Suppresses leak reports about HDF5: HDF5 1.10 leaks memory if it rejects a damaged file.
/// LeakSanitizer calls this function in builds that contain it.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;

class CheckpointDamage : public testing::Test {
 protected:
  CheckpointDamage() {
    write_checkpoint(path_, weights_.tensors(), some_counters);
    whole_ = content(path_);
  }

  /// Reads `bytes` as a checkpoint and returns whether they were accepted. Fails the test if
  /// accepted values differ from those that were written, or if rejected bytes have changed the
  /// target.
  bool takes(const std::string& bytes) {
    fs::remove(path_);  // some file systems sync a file that is truncated and rewritten
    std::ofstream(path_, std::ios::binary) << bytes;
    Weights target(100, more);
    const auto before = target.values();
    try {
      const Counters counters = read_checkpoint(path_, target.tensors(), Verify::required);
      EXPECT_EQ(counters, some_counters);
      EXPECT_EQ(target.values(), weights_.values());
      return true;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.status(), core::ExitStatus::input);
      EXPECT_EQ(target.values(), before);
      return false;
    }
  }

  TemporaryDirectory directory_;
  const fs::path path_ = directory_ / "weights.h5";
  // HDF5 stores more than 8 links of a group in a heap by default.
  static constexpr int more = 12;
  Weights weights_{1, more};
  std::string whole_;
};

// LOCKSTEP_DAMAGE_ROUNDS=100000 runs a longer test.
TEST_F(CheckpointDamage, AFlippedBitIsDetectedOrHasNoEffect) {
  const char* wanted = std::getenv("LOCKSTEP_DAMAGE_ROUNDS");
  const int rounds = wanted ? std::atoi(wanted) : 300;
  core::Random random(5, core::RandomStream::test);
  int taken = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = whole_;
    const std::size_t at = random.below(static_cast<std::uint32_t>(bytes.size()));
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
    taken += takes(bytes);
    ASSERT_FALSE(HasFailure()) << "round " << round << ", byte " << at;
  }
  std::printf("%d flipped bits: %d detected, %d without effect\n", rounds, rounds - taken, taken);
  EXPECT_TRUE(takes(whole_));
  // Such a small file has unused gaps between its blocks, where a flipped bit has no effect, but
  // most bits are in use.
  EXPECT_LT(taken, rounds / 2);
}

TEST_F(CheckpointDamage, ATruncatedFileIsRejected) {
  core::Random random(6, core::RandomStream::test);
  for (int round = 0; round < 300; ++round) {
    const std::size_t length = random.below(static_cast<std::uint32_t>(whole_.size()));
    ASSERT_FALSE(takes(whole_.substr(0, length))) << length;
  }
}

TEST_F(CheckpointDamage, ALostBlockIsDetected) {
  core::Random random(8, core::RandomStream::test);
  constexpr std::size_t block = 512;
  for (std::size_t start = 0; start + block <= whole_.size(); start += block) {
    std::string bytes = whole_;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(start), block, '\0');
    if (bytes == whole_) continue;
    EXPECT_FALSE(takes(bytes)) << start;
  }
}

}  // namespace
}  // namespace lockstep::record
