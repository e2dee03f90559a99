#include "cifar10.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using core::ExitStatus;

using Bytes = std::vector<std::uint8_t>;

// Returns `count` records of random pixels. The label of record i is i mod 10.
Bytes records(std::size_t count, std::uint64_t index) {
  Bytes bytes = random_bytes(count * cifar10::record_bytes, index);
  for (std::size_t i = 0; i < count; ++i) {
    bytes.at(i * cifar10::record_bytes) = static_cast<std::uint8_t>(i % 10);
  }
  return bytes;
}

const std::string names =
    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

// Creates a folder of small, valid files and removes it at the end.
class Cifar10Test : public testing::Test {
 protected:
  Cifar10Test() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::temp_directory_path() / fmt::format("lockstep-{}-{}", test->name(), getpid());
    fs::create_directories(folder);
    for (std::uint64_t i = 1; i <= 5; ++i) {
      write(fmt::format("data_batch_{}.bin", i), records(10 + i, i));  // 11 to 15: 65 in total
    }
    write("test_batch.bin", records(12, 6));
    write("batches.meta.txt", {names.begin(), names.end()});
  }
  ~Cifar10Test() override { fs::remove_all(folder); }

  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  DataOptions options() const { return {.source = "cifar10:" + folder.string()}; }

  // Fails the test unless `load` and `sizes` both throw an input error whose message contains all
  // `parts` and the advice to the user.
  void expect_refused(std::vector<std::string> parts) const {
    parts.emplace_back("jobs/download-cifar10");
    parts.emplace_back("--data synthetic");
    expect_error(ExitStatus::input, parts, [this] { load(options()); });
    expect_error(ExitStatus::input, parts, [this] { sizes(options()); });
  }

  fs::path folder;
};

TEST_F(Cifar10Test, ReadsLabelsAndPixelsInOrder) {
  const TrainingData data = load(options());
  EXPECT_EQ(data.origin, options().source);
  EXPECT_EQ(data.digest.size(), 16u);
  ASSERT_EQ(data.train.size(), 65u);
  ASSERT_EQ(data.test.size(), 12u);
  EXPECT_EQ(data.train.image, (core::ImageShape{3, 32, 32}));
  ASSERT_EQ(data.train.class_names.size(), 10u);
  EXPECT_EQ(data.train.class_names[9], "truck");

  std::size_t sample = 0;
  for (std::uint64_t file = 1; file <= 5; ++file) {
    const Bytes content = records(10 + file, file);
    for (std::size_t i = 0; i < 10 + file; ++i, ++sample) {
      EXPECT_EQ(data.train.labels[sample], i % 10);
      const auto pixels = data.train.pixels(sample);
      EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(),
                             content.begin() + static_cast<std::ptrdiff_t>(i * 3073 + 1)))
          << sample;
    }
  }
}

TEST_F(Cifar10Test, TakesTheFirstSamples) {
  DataOptions some = options();
  some.train_samples = 13;  // all 11 records of the first file and 2 of the second
  some.test_samples = 5;
  const TrainingData data = load(some);
  const TrainingData all = load(options());
  ASSERT_EQ(data.train.size(), 13u);
  ASSERT_EQ(data.test.size(), 5u);
  EXPECT_EQ(data.train.labels[12], 1);
  EXPECT_TRUE(
      std::equal(data.train.images.begin(), data.train.images.end(), all.train.images.begin()));
  EXPECT_NE(data.digest, all.digest);
  EXPECT_EQ(sizes(some).train, 13u);
  EXPECT_EQ(sizes(some).test, 5u);
  EXPECT_EQ(sizes(options()).train, 65u);
  EXPECT_EQ(sizes(options()).test, 12u);
}

TEST_F(Cifar10Test, NamesBothNumbersWhereTooManyAreAsked) {
  DataOptions many = options();
  many.train_samples = 66;
  expect_error(ExitStatus::usage, {"--train-samples 66", "only 65"}, [&] { load(many); });
  many.train_samples = 0;
  many.test_samples = 13;
  expect_error(ExitStatus::usage, {"--test-samples 13", "only 12"}, [&] { sizes(many); });
}

TEST_F(Cifar10Test, FindsTheArchivesFolder) {
  const fs::path above = folder / "above";
  fs::create_directories(above / "cifar-10-batches-bin");
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      fs::rename(entry.path(), above / "cifar-10-batches-bin" / entry.path().filename());
    }
  }
  const DataOptions options{.source = "cifar10:" + above.string()};
  EXPECT_EQ(sizes(options).train, 65u);
  EXPECT_EQ(load(options).train.size(), 65u);
}

TEST_F(Cifar10Test, MissingFolder) {
  expect_error(ExitStatus::input, {"/no/such/place", "no such folder", "jobs/download-cifar10"},
               [] { load({.source = "cifar10:/no/such/place"}); });
}

TEST_F(Cifar10Test, MissingFile) {
  fs::remove(folder / "data_batch_4.bin");
  expect_refused({"data_batch_4.bin", "No such file"});
}

TEST_F(Cifar10Test, MissingTestFile) {
  fs::remove(folder / "test_batch.bin");
  expect_refused({"test_batch.bin", "No such file"});
}

TEST_F(Cifar10Test, FolderInPlaceOfAFile) {
  fs::remove(folder / "test_batch.bin");
  fs::create_directory(folder / "test_batch.bin");
  expect_refused({"test_batch.bin", "not a regular file"});
}

TEST_F(Cifar10Test, TruncatedFile) {
  Bytes bytes = records(12, 2);
  bytes.resize(bytes.size() - 100);
  write("data_batch_2.bin", bytes);
  expect_refused({"data_batch_2.bin", "36776 bytes", "3073", "truncated after 11"});
}

TEST_F(Cifar10Test, EmptyFile) {
  write("data_batch_5.bin", {});
  expect_refused({"data_batch_5.bin", "empty"});
}

TEST_F(Cifar10Test, OversizedFile) {
  fs::resize_file(folder / "data_batch_1.bin", 10'001 * 3073);
  expect_refused({"data_batch_1.bin", "30733073 bytes", "more than the 10000 records"});
}

TEST_F(Cifar10Test, LabelOutOfRange) {
  Bytes bytes = records(13, 3);
  bytes[7 * cifar10::record_bytes] = 10;
  write("data_batch_3.bin", bytes);
  expect_error(ExitStatus::input,
               {"data_batch_3.bin", "record 7", "label 10", "jobs/download-cifar10"},
               [this] { load(options()); });
}

TEST_F(Cifar10Test, MissingClassNames) {
  fs::remove(folder / "batches.meta.txt");
  expect_refused({"batches.meta.txt", "No such file"});
}

TEST_F(Cifar10Test, TooFewClassNames) {
  const std::string nine = names.substr(names.find('\n') + 1);
  write("batches.meta.txt", {nine.begin(), nine.end()});
  expect_refused({"batches.meta.txt", "9 class names instead of 10"});
}

TEST_F(Cifar10Test, SomethingElseInPlaceOfClassNames) {
  write("batches.meta.txt", records(2, 1));
  expect_refused({"batches.meta.txt", "6146 bytes", "not a list"});
}

TEST_F(Cifar10Test, WindowsLineEnds) {
  std::string text;
  for (const char letter : names) text += letter == '\n' ? "\r\n" : std::string(1, letter);
  EXPECT_EQ(cifar10::parse_class_names(text, "f")[9], "truck");
}

// Applies the check of fuzz_cifar10.cpp to random mutations of a valid file, with a fixed seed: for
// any bytes, the parser either accepts all records or throws an input error.
TEST_F(Cifar10Test, AnyBytesAreTakenWholeOrRefused) {
  const Bytes valid = records(3, 1);
  core::Random random(1, core::RandomStream::test, 99);
  int taken = 0;
  int refused = 0;
  for (int input = 0; input < 4000; ++input) {
    Bytes bytes = valid;
    switch (random.below(4)) {
      case 0: bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size()) + 1)); break;
      case 1: bytes.resize(random.below(4) * cifar10::record_bytes); break;
      case 2: bytes.insert(bytes.end(), random.below(3) * 1537, std::uint8_t{9}); break;
      default: break;
    }
    for (std::uint32_t flips = random.below(4); flips > 0 && !bytes.empty(); --flips) {
      const std::size_t place = random.below(2) == 0
                                    ? random.below(3) * cifar10::record_bytes % bytes.size()
                                    : random.below(static_cast<std::uint32_t>(bytes.size()));
      bytes[place] = static_cast<std::uint8_t>(random.bits());
    }
    Dataset set;
    try {
      cifar10::append_records(bytes, "input", set);
      ++taken;
      ASSERT_EQ(set.size() * cifar10::record_bytes, bytes.size());
      ASSERT_EQ(set.images.size(), set.size() * cifar10::image_bytes);
      for (const std::uint8_t label : set.labels) ASSERT_LT(label, 10);
    } catch (const core::Error& error) {
      ++refused;
      ASSERT_EQ(error.status(), ExitStatus::input) << error.what();
    }
  }
  EXPECT_GT(taken, 400) << "the mutations reach past the checks";
  EXPECT_GT(refused, 400);
}

}  // namespace
}  // namespace lockstep::data
