// SPDX-License-Identifier: BSD-3-Clause
#include "record_files.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/images.hpp"
#include "data/record_formats.hpp"
#include "expect_error.hpp"

namespace lockstep::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

class RecordFilesTest : public testing::TestWithParam<RecordFormat> {
 protected:
  // Returns `count` records of random pixels. Each label byte of record i is i mod 10.
  Bytes records(std::size_t count) const {
    Bytes bytes = random_bytes(count * format.record_bytes(), 1);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t label = 0; label < format.label_classes.size(); ++label) {
        bytes[i * format.record_bytes() + label] = static_cast<std::uint8_t>(i % 10);
      }
    }
    return bytes;
  }

  const RecordFormat format = GetParam();
};

TEST_P(RecordFilesTest, TakesTheLastLabelAndThePixels) {
  const std::size_t labels = format.label_classes.size();
  Bytes bytes = records(3);
  bytes[2 * format.record_bytes() + labels - 1] = 7;
  LabelledImages content;
  append_records(format, bytes, "file", content);
  EXPECT_EQ(content.labels, (std::vector<std::int32_t>{0, 1, 7}));
  const Bytes pixels(bytes.begin() + static_cast<std::ptrdiff_t>(labels),
                     bytes.begin() + static_cast<std::ptrdiff_t>(format.record_bytes()));
  EXPECT_EQ(Bytes(content.images.begin(), content.images.begin() + 105), pixels);
}

TEST_P(RecordFilesTest, ChecksEveryLabelByte) {
  for (std::size_t label = 0; label < format.label_classes.size(); ++label) {
    const std::int32_t classes = format.label_classes[label];
    Bytes bytes = records(4);
    LabelledImages content;
    bytes[2 * format.record_bytes() + label] = static_cast<std::uint8_t>(classes - 1);
    append_records(format, bytes, "file", content);
    bytes[2 * format.record_bytes() + label] = static_cast<std::uint8_t>(classes);
    expect_error(core::ExitStatus::input,
                 {"file", "record 2", fmt::format("label {}, above {}", classes, classes - 1)},
                 [&] { append_records(format, bytes, "file", content); });
  }
}

TEST_P(RecordFilesTest, CountsWholeRecordsUpToTheLimit) {
  const std::size_t record = format.record_bytes();
  EXPECT_EQ(count_records(format, record, "file"), 1u);
  EXPECT_EQ(count_records(format, 100 * record, "file"), 100u);
  for (const std::size_t bytes : {std::size_t{0}, record - 1, record + 1, 101 * record}) {
    expect_error(core::ExitStatus::input,
                 {"file", "pixel bytes (3x5x7)", "get a fresh copy from nowhere"},
                 [&] { count_records(format, bytes, "file"); });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RecordFilesTest, testing::ValuesIn(record_formats),
                         [](const auto& parameter) {
                           return fmt::format("{}Labels", parameter.param.label_classes.size());
                         });

}  // namespace
}  // namespace lockstep::data
