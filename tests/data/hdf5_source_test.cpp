// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "data/hdf5_images.hpp"
#include "expect_error.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using namespace hdf5_images;

class Hdf5SourceTest : public testing::Test {
 protected:
  Hdf5SourceTest() { fs::create_directories(folder_); }
  ~Hdf5SourceTest() override { fs::remove_all(folder_); }

  // Writes a valid file and changes it.
  void write(const std::function<void(hid_t)>& change = [](hid_t) {}) const {
    hdf5::File file = hdf5::create_file(path_);
    write_valid(file.get());
    change(file.get());
    hdf5::close(std::move(file));
  }
  DataOptions options() const { return {.source = "hdf5:" + path_.string()}; }

  const fs::path folder_ = fs::temp_directory_path() / fmt::format("lockstep-hdf5-{}", getpid());
  const fs::path path_ = folder_ / "own.h5";
};

TEST_F(Hdf5SourceTest, ReadsImagesLabelsAndProperties) {
  write();
  const TrainingData data = load(options());
  const DatasetInfo& info = data.test->info();
  EXPECT_EQ(info.name, "hdf5");
  EXPECT_EQ(info.image, shape);
  EXPECT_EQ(info.classes, 3);
  EXPECT_EQ(info.normalisation.mean, (std::array{0.25f, 0.5f, 0.0f}));
  EXPECT_EQ(info.normalisation.standard_deviation, (std::array{0.125f, 1.0f, 1.0f}));
  const auto pixels = random_bytes(train_size * 30, train_size * 30);
  EXPECT_TRUE(std::ranges::equal(data.train->pixels(), pixels));
  EXPECT_TRUE(std::ranges::equal(data.train->labels(), std::array{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(data.test->size(), test_size);
}

TEST_F(Hdf5SourceTest, TakesTheFirstSamples) {
  write();
  DataOptions some = options();
  some.train_samples = 5;
  some.test_samples = 1;
  const TrainingData data = load(some), all = load(options());
  EXPECT_EQ(sizes(some).train, 5u);
  EXPECT_TRUE(std::ranges::equal(data.train->pixels(), all.train->pixels().first(5 * 30)));
  EXPECT_EQ(data.test->size(), 1u);
  some.train_samples = 8;
  expect_error(core::ExitStatus::usage, {"holds only 7"}, [&] { sizes(some); });
}

TEST_F(Hdf5SourceTest, ReadsOtherStorageAndIntegerTypes) {
  write([](hid_t file) {
    const std::array<std::uint8_t, train_size> labels{0, 1, 2, 0, 1, 2, 0};
    put(file, "train/labels", H5T_STD_U8LE, {train_size}, labels.data());
    const auto creation = hdf5::properties(H5P_DATASET_CREATE);
    const Extents chunk{2, 2, 2, 3};
    H5Pset_chunk(creation.get(), 4, chunk.data());
    H5Pset_deflate(creation.get(), 1);
    const auto original =
        hdf5::own<hdf5::Dataset>(H5Dopen2(file, "train/images", H5P_DEFAULT), "opening");
    const auto space = hdf5::own<hdf5::Space>(H5Dget_space(original.get()), "opening");
    std::vector<std::uint8_t> pixels(train_size * 30);
    hdf5::read_all(original, H5T_NATIVE_UINT8, pixels.data());
    H5Ldelete(file, "train/images", H5P_DEFAULT);
    const auto chunked =
        hdf5::own<hdf5::Dataset>(H5Dcreate2(file, "train/images", H5T_STD_U8BE, space.get(),
                                            H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                 "creating");
    hdf5::check(
        H5Dwrite(chunked.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data()),
        "writing");
  });
  const std::string digest = load(options()).digest;
  write();
  EXPECT_EQ(load(options()).digest, digest);
}

struct Fault {
  const char* name;
  std::vector<std::string> message;
  std::function<void(hid_t)> change;
  bool is_found_by_sizes = true;
};

const std::vector<Fault> faults{
    {"NoImages",
     {"has no dataset test/images"},
     [](hid_t file) { H5Ldelete(file, "test/images", H5P_DEFAULT); }},
    {"NoGroup",
     {"has no dataset train/images", "lockstep-data"},
     [](hid_t file) { H5Ldelete(file, "train", H5P_DEFAULT); }},
    {"NoMean", {"has no dataset mean"}, [](hid_t file) { H5Ldelete(file, "mean", H5P_DEFAULT); }},
    {"GroupIsADataset",
     {"has no dataset train/images"},
     [](hid_t file) {
       H5Ldelete(file, "train", H5P_DEFAULT);
       put_numbers(file, "train", {1});
     }},
    {"ImagesAreAGroup",
     {"train/images is not a dataset"},
     [](hid_t file) {
       H5Ldelete(file, "train/images", H5P_DEFAULT);
       hdf5::own<hdf5::Group>(
           H5Gcreate2(file, "train/images", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "creating");
     }},
    {"SoftLink",
     {"train/images is a link"},
     [](hid_t file) {
       H5Ldelete(file, "train/images", H5P_DEFAULT);
       H5Lcreate_soft("/test/images", file, "train/images", H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"ExternalLink",
     {"mean is a link"},
     [](hid_t file) {
       H5Ldelete(file, "mean", H5P_DEFAULT);
       H5Lcreate_external("other.h5", "mean", file, "mean", H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"FloatImages",
     {"train/images is not of the type uint8", "0 to 255"},
     [](hid_t file) {
       const std::vector<float> pixels(train_size * 30);
       put(file, "train/images", H5T_NATIVE_FLOAT, {train_size, 2, 3, 5}, pixels.data());
     }},
    {"NoChannels",
     {"train/images has the shape (7, 3, 5) instead of (N, C, H, W)", "images[:, None]"},
     [](hid_t file) {
       put_images(file, "train/images", {train_size, 3, 5});
     }},
    {"ChannelsLast",
     {"(7, 4, 5, 3): 4 channels", "images.transpose(0, 3, 1, 2)"},
     [](hid_t file) {
       put_images(file, "train/images", {train_size, 4, 5, 3});
     }},
    {"FourChannels",
     {"(7, 4, 5, 6): 4 channels, and there can be 1 to 3; write the file with lockstep-data"},
     [](hid_t file) {
       put_images(file, "train/images", {train_size, 4, 5, 6});
     }},
    {"LargeImages",
     {"images of 1 x 5000 pixels"},
     [](hid_t file) {
       put_images(file, "train/images", {train_size, 2, 1, 5000});
     }},
    {"NoTestImages",
     {"test/images has 0 images"},
     [](hid_t file) {
       put_images(file, "test/images", {0, 2, 3, 5});
       put_labels(file, "test/labels", {});
     }},
    {"OtherShapes",
     {"different shapes"},
     [](hid_t file) {
       put_images(file, "test/images", {test_size, 2, 5, 3});
     }},
    {"NeverWritten",
     {"train/images with the shape (7, 2, 3, 5) was never written"},
     [](hid_t file) {
       put(file, "train/images", H5T_STD_U8LE, {train_size, 2, 3, 5}, nullptr);
     }},
    {"FewerLabels",
     {"test/images has 4 images, but test/labels has 2 labels"},
     [](hid_t file) {
       put_labels(file, "test/labels", {0, 1});
     }},
    {"FloatLabels",
     {"test/labels does not consist of integers"},
     [](hid_t file) {
       put_numbers(file, "test/labels", {0, 1, 2, 0});
     }},
    {"LargeLabel",
     {"test/labels[2] is 3, but the 3 classes have the labels 0 to 2"},
     [](hid_t file) {
       put_labels(file, "test/labels", {0, 1, 3, 0});
     },
     false},
    {"NegativeLabel",
     {"test/labels[1] is -1"},
     [](hid_t file) {
       put_labels(file, "test/labels", {0, -1, 2, 0});
     },
     false},
    {"HugeLabel",
     {"test/labels[0] is 4294967296"},
     [](hid_t file) {
       put_labels(file, "test/labels", {std::int64_t{1} << 32, 0, 0, 0});
     },
     false},
    {"OneClass", {"class_names has 1 names"}, [](hid_t file) { put_names(file, "cat", 3); }},
    {"OneMean",
     {"mean has 1 values, but the images have 2 channels"},
     [](hid_t file) { put_numbers(file, "mean", {0.5f}); }},
    {"MeanOfBytes",
     {"mean[1] is 127.5", "divide by 255"},
     [](hid_t file) {
       put_numbers(file, "mean", {0.5f, 127.5f});
     }},
    {"NaNMean",
     {"mean[0] is nan", "write the mean of the pixels, or 0 for none"},
     [](hid_t file) {
       put_numbers(file, "mean", {NAN, 0.5f});
     }},
    {"NoDeviation",
     {"std[1] is 0, not above 0", "write the standard deviation of the pixels, or 1 for none"},
     [](hid_t file) {
       put_numbers(file, "std", {0.5f, 0});
     }},
    {"DeviationOfBytes",
     {"std[0] is 63.75, not above 0 and at most 1", "divide by 255"},
     [](hid_t file) {
       put_numbers(file, "std", {63.75f, 0.5f});
     }},
};

class Hdf5FaultTest : public Hdf5SourceTest, public testing::WithParamInterface<Fault> {};

TEST_P(Hdf5FaultTest, IsNamed) {
  write(GetParam().change);
  std::vector<std::string> parts = GetParam().message;
  parts.push_back(path_.string() + ": ");
  expect_error(core::ExitStatus::input, parts, [&] { load(options()); });
  if (!GetParam().is_found_by_sizes) return;
  expect_error(core::ExitStatus::input, parts, [&] { sizes(options()); });
}

INSTANTIATE_TEST_SUITE_P(Faults, Hdf5FaultTest, testing::ValuesIn(faults),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_F(Hdf5SourceTest, RefusesOtherFiles) {
  const auto expect = [&](const std::vector<std::string>& parts) {
    expect_error(core::ExitStatus::input, parts, [&] { sizes(options()); });
  };
  expect({"own.h5", "no such file", "lockstep-data"});
  std::ofstream(path_) << "PK\x03\x04";
  expect({"it is a ZIP archive, not an HDF5 file"});
  std::ofstream(path_) << "";
  expect({"it is an empty file"});
  fs::remove(path_);
  fs::create_directory(path_);
  expect({"it is a folder", "lockstep-data folder", "--size"});
}

}  // namespace
}  // namespace lockstep::data
