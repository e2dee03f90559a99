// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

#include <gtest/gtest.h>

#include "data/images.hpp"
#include "expect_error.hpp"

namespace lockstep::data {
namespace {

TEST(Source, EveryEntryHasASyntaxOfItsName) {
  std::vector<std::string> texts = source_syntaxes();
  ASSERT_EQ(texts.size(), source_entries().size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const SourceEntry& entry = source_entries()[i];
    EXPECT_TRUE(entry.syntax.starts_with(entry.name)) << entry.syntax;
    EXPECT_NE(texts[i].find(entry.syntax), std::string::npos);
    EXPECT_NE(texts[i].find(entry.help), std::string::npos);
  }
}

TEST(Source, UnknownSourcesListTheSyntaxes) {
  std::vector<std::string> parts{"unknown source"};
  for (const SourceEntry& entry : source_entries()) parts.emplace_back(entry.syntax);
  for (const char* source : {"", "cifar1000:x", "cifar10", "cifar10:", "cifar10/x", "/data",
                             "Synthetic", "syntheticx", "hdf5", "hdf5:"}) {
    parts.front() = std::string("--data ") + source + ": unknown source";
    expect_error(core::ExitStatus::usage, parts, [source] { sizes({.source = source}); });
    expect_error(core::ExitStatus::usage, parts, [source] { load({.source = source}); });
  }
}

TEST(Source, FoldersMayContainTheSeparators) {
  expect_error(core::ExitStatus::input, {"/no/such@place:3/x", "no such folder"},
               [] { sizes({.source = "cifar10:/no/such@place:3/x"}); });
}

}  // namespace
}  // namespace lockstep::data
