// SPDX-License-Identifier: BSD-3-Clause
// Tests of every dataset that consists of one file of training and one of test records.

#include <gtest/gtest.h>

#include "data/record_folder.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct Published {
  const char *name, *train_file, *test_file;
  std::vector<std::size_t> label_classes;
  std::array<float, 3> mean, standard_deviation;
  std::size_t most_records;    ///< in a file
  const char* advice;          ///< in each message about the files
  const char* archive_folder;  ///< null if there is none
};

const std::vector<Published> datasets{{.name = "cifar100",
                                       .train_file = "train.bin",
                                       .test_file = "test.bin",
                                       .label_classes = {20, 100},
                                       .mean = {0.5071f, 0.4865f, 0.4409f},
                                       .standard_deviation = {0.2673f, 0.2564f, 0.2762f},
                                       .most_records = 50'000,
                                       .advice = "cifar-100-binary.tar.gz",
                                       .archive_folder = "cifar-100-binary"},
                                      {.name = "svhn",
                                       .train_file = "train_32x32.bin",
                                       .test_file = "test_32x32.bin",
                                       .label_classes = {10},
                                       .mean = {0.4377f, 0.4438f, 0.4728f},
                                       .standard_deviation = {0.1980f, 0.2010f, 0.1970f},
                                       .most_records = 604'388,
                                       .advice = "docs/options.md",
                                       .archive_folder = nullptr}};

// Creates a folder of small, valid files.
class RecordDatasetTest : public RecordFolderTest, public testing::WithParamInterface<Published> {
 protected:
  RecordDatasetTest() : RecordFolderTest(GetParam().name, GetParam().advice) {
    write(GetParam().train_file, records(130, 1));
    write(GetParam().test_file, records(12, 2));
  }

  // Each label byte of record i is i mod its number of classes.
  static Bytes records(std::size_t count, std::uint64_t index) {
    return random_records(count, index, GetParam().label_classes);
  }
};

TEST_P(RecordDatasetTest, ReadsLabelsAndPixelsInOrder) {
  const TrainingData data = load(options());
  ASSERT_EQ(data.train->size(), 130u);
  ASSERT_EQ(data.test->size(), 12u);
  const DatasetInfo& info = data.train->info();
  const std::size_t classes = GetParam().label_classes.back();
  EXPECT_EQ(info.name, GetParam().name);
  EXPECT_EQ(static_cast<std::size_t>(info.classes), classes);
  EXPECT_EQ(info.image, (core::ImageShape{3, 32, 32}));
  EXPECT_EQ(info.normalisation.mean, GetParam().mean);
  EXPECT_EQ(info.normalisation.standard_deviation, GetParam().standard_deviation);
  const Bytes content = records(130, 1);
  const std::size_t labels = GetParam().label_classes.size();
  for (std::size_t i = 0; i < 130; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(data.train->labels()[i]), i % classes);
    expect_pixels(*data.train, i,
                  content.begin() + static_cast<std::ptrdiff_t>(i * (labels + 3072) + labels));
  }
}

TEST_P(RecordDatasetTest, TakesTheFirstSamples) {
  DataOptions some = options();
  some.train_samples = 110;
  some.test_samples = 5;
  EXPECT_EQ(sizes(some).train, 110u);
  EXPECT_EQ(load(some).train->size(), 110u);
  EXPECT_EQ(load(some).test->size(), 5u);
  EXPECT_NE(load(some).digest, load(options()).digest);
}

TEST_P(RecordDatasetTest, FindsTheArchivesFolder) {
  if (GetParam().archive_folder == nullptr) GTEST_SKIP() << "the archive has no folder";
  const fs::path above = move_files(GetParam().archive_folder);
  EXPECT_EQ(sizes({.source = GetParam().name + (":" + above.string())}).train, 130u);
}

TEST_P(RecordDatasetTest, RefusesMissingAndOversizedFiles) {
  const std::size_t record = GetParam().label_classes.size() + 3072;
  fs::resize_file(folder / GetParam().train_file, (GetParam().most_records + 1) * record);
  expect_refused(
      {GetParam().train_file, fmt::format("more than the {} records", GetParam().most_records)});
  fs::remove(folder / GetParam().test_file);
  write(GetParam().train_file, records(2, 1));
  expect_refused({GetParam().test_file, "No such file"});
  fs::remove(folder / GetParam().train_file);
  expect_refused({"the folder contains no", GetParam().train_file});
}

INSTANTIATE_TEST_SUITE_P(Datasets, RecordDatasetTest, testing::ValuesIn(datasets),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::data
