// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "data/record_folder.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t record_bytes = 3073;

// Returns `count` records of random pixels. The label of record i is i mod 10.
Bytes records(std::size_t count, std::uint64_t index) { return random_records(count, index, {10}); }

// Creates a folder of small, valid files.
class Cifar10Test : public RecordFolderTest {
 protected:
  Cifar10Test() : RecordFolderTest("cifar10", "jobs/download-cifar10") {
    for (std::uint64_t i = 1; i <= 5; ++i) {
      write(fmt::format("data_batch_{}.bin", i), records(10 + i, i));  // 11 to 15: 65 in total
    }
    write("test_batch.bin", records(12, 6));
    write("batches.meta.txt", {});
  }
};

TEST_F(Cifar10Test, ReadsLabelsAndPixelsInOrder) {
  const TrainingData data = load(options());
  EXPECT_EQ(data.train->info().name, "cifar10");
  EXPECT_EQ(data.digest.size(), 16u);
  ASSERT_EQ(data.train->size(), 65u);
  ASSERT_EQ(data.test->size(), 12u);
  EXPECT_EQ(data.train->info().image, (core::ImageShape{3, 32, 32}));
  EXPECT_EQ(data.train->info().classes, 10);
  EXPECT_EQ(data.train->info().normalisation.mean, (std::array{0.4914f, 0.4822f, 0.4465f}));
  EXPECT_EQ(data.train->info().normalisation.standard_deviation,
            (std::array{0.2023f, 0.1994f, 0.2010f}));

  std::size_t sample = 0;
  for (std::uint64_t file = 1; file <= 5; ++file) {
    const Bytes content = records(10 + file, file);
    for (std::size_t i = 0; i < 10 + file; ++i, ++sample) {
      EXPECT_EQ(data.train->labels()[sample], i % 10);
      expect_pixels(*data.train, sample,
                    content.begin() + static_cast<std::ptrdiff_t>(i * record_bytes + 1));
    }
  }
}

TEST_F(Cifar10Test, MissingFile) {
  fs::remove(folder / "data_batch_4.bin");
  expect_refused({"data_batch_4.bin", "No such file"});
}

TEST_F(Cifar10Test, FolderInPlaceOfAFile) {
  fs::remove(folder / "test_batch.bin");
  fs::create_directory(folder / "test_batch.bin");
  expect_refused({"test_batch.bin", "it is a folder"});
}

// A sparse file claims 1 TiB. If memory were allocated before the check, the test would fail with
// std::bad_alloc or be killed.
TEST_F(Cifar10Test, HugeSparseFile) {
  fs::resize_file(folder / "test_batch.bin", std::uintmax_t{1} << 40);
  expect_refused({"test_batch.bin", "1099511627776 bytes", "more than the 10000 records"});
}

TEST_F(Cifar10Test, LastFilesOfTheTrainingImagesMayBeMissing) {
  EXPECT_EQ(sizes(options()).info.warning, "");
  for (const char* file : {"data_batch_4.bin", "data_batch_5.bin"}) fs::remove(folder / file);
  EXPECT_EQ(load(options()).train->size(), 11u + 12 + 13);
  const std::string warning = sizes(options()).info.warning;
  EXPECT_NE(warning.find("3 of the 5 files of CIFAR-10"), std::string::npos) << warning;
  fs::remove(folder / "batches.meta.txt");  // own images need not fill five files
  EXPECT_EQ(sizes(options()).info.warning, "");
}

TEST_F(Cifar10Test, NamesTheKindOfAFileThatHasNoRecords) {
  const std::string page = "<!DOCTYPE html><title>Login</title>";
  write("data_batch_1.bin", {page.begin(), page.end()});
  expect_refused({"data_batch_1.bin", "an HTML page"});
}

}  // namespace
}  // namespace lockstep::data
