// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint_writer.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return directory_ / name;
  }
  fs::path checkpoint() const {
    std::vector<float> values{1, 2};
    write_checkpoint(directory_ / "checkpoint-4.h5",
                     std::vector<Tensor>{{"state", "bias", {2}, values}}, {{"step", 4}});
    return directory_ / "checkpoint-4.h5";
  }
  static std::string refusal(const auto& call, core::ExitStatus status) {
    try {
      call();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.status(), status);
      return error.what();
    }
    return "";
  }
  std::string distinct(const std::vector<OutputFile>& outputs,
                       const std::vector<NamedFile>& inputs = {}) {
    return refusal([&] { require_distinct(outputs, inputs, directory_.path()); },
                   core::ExitStatus::usage);
  }
  static std::string kind(const fs::path& path, OutputKind kind) {
    return refusal([&] { require_kind(path, kind); }, core::ExitStatus::output);
  }

  TemporaryDirectory directory_;
};

TEST_F(OutputFileTest, OutputsAreComparedByIdentity) {
  const fs::path run = directory_ / "run.h5", dotted = directory_.path() / "." / "run.h5";
  fs::create_directory_symlink(directory_.path(), directory_ / "link");
  for (const fs::path& other :
       {run, dotted, directory_ / "link/run.h5", directory_ / "run.h5.partial"})
    EXPECT_THAT(distinct({{{"--trace", other}, OutputKind::trace},
                          {{"--output", run}, OutputKind::run_file}}),
                HasSubstr("--trace and --output name the same file"))
        << other;
  EXPECT_EQ(distinct({{{"--trace", directory_ / "run.json"}, OutputKind::trace},
                      {{"--output", run}, OutputKind::run_file}}),
            "");
}

TEST_F(OutputFileTest, AnOutputIsNeitherAnInputNorACheckpoint) {
  const fs::path weights = file("weights.h5", "weights");
  fs::create_hard_link(weights, directory_ / "other.h5");
  EXPECT_THAT(distinct({{{"--output", directory_ / "other.h5"}, OutputKind::run_file}},
                       {{"--init-from", weights}}),
              HasSubstr("--output and --init-from name the same file"));
  EXPECT_THAT(distinct({{{"--output", directory_ / "checkpoint-9.h5"}, OutputKind::run_file}}),
              HasSubstr("the name of a checkpoint"));
  EXPECT_EQ(distinct({{{"--output", directory_ / "checkpoints.h5"}, OutputKind::run_file}}), "");
}

TEST_F(OutputFileTest, OnlyAFileOfTheSameKindIsReplaced) {
  EXPECT_EQ(kind(directory_ / "missing", OutputKind::trace), "");
  EXPECT_EQ(kind(file("empty", ""), OutputKind::run_file), "");
  const std::pair<OutputKind, const char*> texts[] = {
      {OutputKind::trace, "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": []}"},
      {OutputKind::engine_log, "{\"graph\":\"conv\"}"}};
  for (const auto& [own, text] : texts) {
    const fs::path path = file("text", text);
    for (const auto& [wanted, _] : texts)
      EXPECT_EQ(kind(path, wanted) == "", wanted == own) << text;
    EXPECT_THAT(kind(path, OutputKind::run_file), HasSubstr("is no run file"));
    EXPECT_THAT(kind(checkpoint(), own), HasSubstr("(checkpoint)"));
  }
  EXPECT_THAT(kind(checkpoint(), OutputKind::run_file), HasSubstr("(checkpoint)"));
  EXPECT_NE(kind(file("data", "plain text"), OutputKind::trace), "");
}

TEST_F(OutputFileTest, ATextReplacesAFileOnlyAsAWhole) {
  const fs::path path = directory_ / "trace.json";
  const std::string trace = "{\"traceEvents\": []}";
  write_text(path, trace, OverwriteMode::refuse, OutputKind::trace);
  const auto write = [&](OverwriteMode mode) {
    write_text(path, trace + "\n", mode, OutputKind::trace);
  };
  EXPECT_THAT(refusal([&] { write(OverwriteMode::refuse); }, core::ExitStatus::output),
              HasSubstr("--overwrite"));
  EXPECT_EQ(fs::file_size(path), trace.size());
  write(OverwriteMode::replace);
  EXPECT_EQ(fs::file_size(path), trace.size() + 1);
  file("trace.json", "mine");
  EXPECT_NE(refusal([&] { write(OverwriteMode::replace); }, core::ExitStatus::output), "");
  EXPECT_EQ(fs::file_size(path), 4u);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1);
}

}  // namespace
}  // namespace lockstep::record
