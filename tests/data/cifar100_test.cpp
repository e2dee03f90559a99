#include <gtest/gtest.h>

#include "data/record_folder.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t record_bytes = 3074;

// Returns `count` records of random pixels. The coarse label of record i is i mod 20, the fine
// label i mod 100.
Bytes records(std::size_t count, std::uint64_t index) {
  return random_records(count, index, {20, 100});
}

// Creates a folder of small, valid files.
class Cifar100Test : public RecordFolderTest {
 protected:
  Cifar100Test() : RecordFolderTest("cifar100", "cifar-100-binary.tar.gz") {
    write("train.bin", records(130, 1));
    write("test.bin", records(12, 2));
  }
};

TEST_F(Cifar100Test, ReadsFineLabelsAndPixelsInOrder) {
  const TrainingData data = load(options());
  ASSERT_EQ(data.train->size(), 130u);
  ASSERT_EQ(data.test->size(), 12u);
  const DatasetInfo& info = data.train->info();
  EXPECT_EQ(info.name, "cifar100");
  EXPECT_EQ(info.classes, 100);
  EXPECT_EQ(info.image, (core::ImageShape{3, 32, 32}));
  EXPECT_EQ(info.normalisation.mean, (std::array{0.5071f, 0.4865f, 0.4409f}));
  EXPECT_EQ(info.normalisation.standard_deviation, (std::array{0.2673f, 0.2564f, 0.2762f}));
  const Bytes content = records(130, 1);
  for (std::size_t i = 0; i < 130; ++i) {
    EXPECT_EQ(data.train->label(i), i % 100);
    expect_pixels(*data.train, i,
                  content.begin() + static_cast<std::ptrdiff_t>(i * record_bytes + 2));
  }
}

TEST_F(Cifar100Test, TakesTheFirstSamples) {
  DataOptions some = options();
  some.train_samples = 110;
  some.test_samples = 5;
  EXPECT_EQ(sizes(some).train, 110u);
  EXPECT_EQ(load(some).train->size(), 110u);
  EXPECT_EQ(load(some).test->size(), 5u);
  EXPECT_NE(load(some).digest, load(options()).digest);
}

TEST_F(Cifar100Test, FindsTheArchivesFolder) {
  const fs::path above = move_files("cifar-100-binary");
  EXPECT_EQ(sizes({.source = "cifar100:" + above.string()}).train, 130u);
}

TEST_F(Cifar100Test, MissingFiles) {
  fs::remove(folder / "test.bin");
  expect_refused({"test.bin", "No such file"});
  expect_error(core::ExitStatus::input, {"/no/such/place", "no such folder of CIFAR-100 files"},
               [] { load({.source = "cifar100:/no/such/place"}); });
}

TEST_F(Cifar100Test, WrongSizes) {
  Bytes bytes = records(12, 2);
  bytes.pop_back();
  write("test.bin", bytes);
  expect_refused({"test.bin", "36887 bytes", "3074", "truncated after 11"});
  write("test.bin", {});
  expect_refused({"test.bin", "empty"});
  fs::resize_file(folder / "test.bin", 50'001 * record_bytes);
  expect_refused({"test.bin", "more than the 50000 records"});
}

TEST_F(Cifar100Test, LabelsOutOfRange) {
  Bytes bytes = records(12, 2);
  bytes[7 * record_bytes + 1] = 100;
  write("test.bin", bytes);
  expect_load_refused({"test.bin", "record 7", "label 100, above 99"});
  bytes = records(12, 2);
  bytes[3 * record_bytes] = 20;
  write("test.bin", bytes);
  expect_load_refused({"test.bin", "record 3", "label 20, above 19"});
}

}  // namespace
}  // namespace lockstep::data
