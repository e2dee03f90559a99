// SPDX-License-Identifier: BSD-3-Clause
// Tests of every dataset that consists of files of records.

#include <gtest/gtest.h>

#include "data/record_folder.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct Published {
  const char* name;
  std::vector<const char*> train_files;
  const char* test_file;
  std::vector<std::size_t> label_classes;
  std::array<float, 3> mean, standard_deviation;
  std::size_t most_records;    ///< in a file
  const char* advice;          ///< in each message about the files
  const char* archive_folder;  ///< null if there is none
};

const std::vector<Published> datasets{
    {.name = "cifar10",
     .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                     "data_batch_5.bin"},
     .test_file = "test_batch.bin",
     .label_classes = {10},
     .mean = {0.4914f, 0.4822f, 0.4465f},
     .standard_deviation = {0.2023f, 0.1994f, 0.2010f},
     .most_records = 10'000,
     .advice = "jobs/download-cifar10",
     .archive_folder = "cifar-10-batches-bin"},
    {.name = "cifar100",
     .train_files = {"train.bin"},
     .test_file = "test.bin",
     .label_classes = {20, 100},
     .mean = {0.5071f, 0.4865f, 0.4409f},
     .standard_deviation = {0.2673f, 0.2564f, 0.2762f},
     .most_records = 50'000,
     .advice = "cifar-100-binary.tar.gz",
     .archive_folder = "cifar-100-binary"},
    {.name = "svhn",
     .train_files = {"train_32x32.bin"},
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
    for (std::size_t file = 0; file < files(); ++file) {
      write(GetParam().train_files[file], train_records(file));
    }
    write(GetParam().test_file, random_records(12, files(), GetParam().label_classes));
  }

  static std::size_t files() { return GetParam().train_files.size(); }
  // Returns the records of a file of training images. Each label byte of record i of a file is i
  // mod its number of classes.
  static Bytes train_records(std::size_t file) {
    return random_records(130 / files(), file, GetParam().label_classes);
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
  const std::size_t labels = GetParam().label_classes.size();
  std::size_t sample = 0;
  for (std::size_t file = 0; file < files(); ++file) {
    const Bytes content = train_records(file);
    for (std::size_t i = 0; i < 130 / files(); ++i, ++sample) {
      EXPECT_EQ(static_cast<std::size_t>(data.train->labels()[sample]), i % classes);
      expect_pixels(*data.train, sample,
                    content.begin() + static_cast<std::ptrdiff_t>(i * (labels + 3072) + labels));
    }
  }
}

TEST_P(RecordDatasetTest, TakesTheFirstSamples) {
  DataOptions some = options();
  some.train_samples = 110;
  some.test_samples = 5;
  const TrainingData data = load(some), all = load(options());
  EXPECT_EQ(sizes(some).train, 110u);
  EXPECT_EQ(data.train->size(), 110u);
  EXPECT_EQ(data.test->size(), 5u);
  EXPECT_TRUE(std::ranges::equal(data.train->pixels(), all.train->pixels().first(110 * 3072)));
  EXPECT_NE(data.digest, all.digest);
}

TEST_P(RecordDatasetTest, FindsTheArchivesFolder) {
  if (GetParam().archive_folder == nullptr) GTEST_SKIP() << "the archive has no folder";
  const fs::path above = move_files(GetParam().archive_folder);
  EXPECT_EQ(sizes({.source = GetParam().name + (":" + above.string())}).train, 130u);
}

TEST_P(RecordDatasetTest, RefusesMissingAndOversizedFiles) {
  const std::size_t record = GetParam().label_classes.size() + 3072;
  const char* first = GetParam().train_files.front();
  fs::resize_file(folder / first, (GetParam().most_records + 1) * record);
  expect_refused({first, fmt::format("more than the {} records", GetParam().most_records)});
  fs::remove(folder / GetParam().test_file);
  write(first, train_records(0));
  expect_refused({GetParam().test_file, "No such file"});
  for (const char* file : GetParam().train_files) fs::remove(folder / file);
  expect_refused({"the folder contains no", first});
}

INSTANTIATE_TEST_SUITE_P(Datasets, RecordDatasetTest, testing::ValuesIn(datasets),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::data
