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

TEST(Source, NamesInOtherFormsAreSuggested) {
  const std::pair<const char*, const char*> cases[] = {
      {"CIFAR10:/x", "cifar10:/x"},  {"cifar-10:/x", "cifar10:/x"},
      {"CIFAR_100:d", "cifar100:d"}, {"Cifar 10:d", "cifar10:d"},
      {"SVHN:d", "svhn:d"},          {"h5:f", "hdf5:f"},
      {"cifar10", "cifar10:DIR"},    {"cifar10:", "cifar10:DIR"},
      {"CIFAR-10", "cifar10:DIR"},   {"Synthetic:64@3x8x8", "synthetic:64@3x8x8"},
      {"synthetic-", "synthetic"},   {"HDF5", "hdf5:FILE"}};
  for (const auto& [given, meant] : cases) {
    const std::string words = std::string("did you mean --data ") + meant + "?";
    expect_error(core::ExitStatus::usage, {words}, [&] { sizes({.source = given}); });
  }
}

TEST(Source, FoldersMayContainTheSeparators) {
  expect_error(core::ExitStatus::input, {"/no/such@place:3/x", "no such folder"},
               [] { sizes({.source = "cifar10:/no/such@place:3/x"}); });
}

}  // namespace
}  // namespace lockstep::data
