// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "data/images.hpp"
#include "expect_error.hpp"

namespace lockstep::data {
namespace {

using core::ExitStatus;

TEST(SyntheticSource, HasTheSizesAskedFor) {
  const DataSizes all = sizes({});
  EXPECT_EQ(all.train, 10'000u);
  EXPECT_EQ(all.test, 2'000u);
  EXPECT_EQ(all.info.name, "synthetic");
  EXPECT_EQ(all.info.classes, 10);
  EXPECT_EQ(all.info.image, (core::ImageShape{3, 32, 32}));
  EXPECT_EQ(all.memory_bytes, 12'000u * (3072 + sizeof(std::int32_t)));

  const TrainingData data =
      load({.source = "synthetic:500", .train_samples = 64, .test_samples = 30});
  EXPECT_EQ(data.train->size(), 64u);
  EXPECT_EQ(data.test->size(), 30u);
  EXPECT_EQ(data.train->image_bytes(), 3072u);
  EXPECT_EQ(sizes({.source = "synthetic:3"}).test, 1u);
}

TEST(SyntheticSource, EveryPartMayBeLeftOut) {
  struct Case {
    const char* source;
    std::size_t train;
    core::ImageShape image;
    std::int64_t classes;
  };
  for (const Case& wanted : {Case{"synthetic:50@1x28x20/7", 50, {1, 28, 20}, 7},
                             Case{"synthetic:50@3x224x224", 50, {3, 224, 224}, 10},
                             Case{"synthetic:50/100", 50, {3, 32, 32}, 100},
                             Case{"synthetic@4x8x8/2", 10'000, {4, 8, 8}, 2},
                             Case{"synthetic/1000", 10'000, {3, 32, 32}, 1000}}) {
    const DataSizes found = sizes({.source = wanted.source});
    EXPECT_EQ(found.train, wanted.train) << wanted.source;
    EXPECT_EQ(found.info.image, wanted.image) << wanted.source;
    EXPECT_EQ(found.info.classes, wanted.classes) << wanted.source;
  }
  const TrainingData data = load({.source = "synthetic:20@1x28x20/7"});
  EXPECT_EQ(data.train->image_bytes(), 560u);
  EXPECT_EQ(data.train->labels()[6], 6);
  EXPECT_EQ(data.train->labels()[7], 0);
}

TEST(SyntheticSource, DependsOnTheSeed) {
  const auto digest_of = [](std::uint64_t seed) {
    return load({.source = "synthetic:20", .seed = seed}).digest;
  };
  EXPECT_EQ(digest_of(1), digest_of(1));
  EXPECT_NE(digest_of(1), digest_of(2));
}

TEST(SyntheticSource, NamesBadSources) {
  // An error names only the invalid part.
  for (const auto& [source, rule] :
       {std::pair{"synthetic:0", "the number of images must be from 1 to "},
        std::pair{"synthetic@0x8x8", "the image shape must be CxHxW with numbers from 1 to "},
        std::pair{"synthetic/1", "the number of classes must be from 2 to "}}) {
    const std::string message =
        expect_error(ExitStatus::usage, {rule}, [&] { sizes({.source = source}); });
    std::size_t rules = 0;
    for (std::size_t at = 0; (at = message.find(" must ", at)) != message.npos; ++at) ++rules;
    EXPECT_EQ(rules, 1u) << message;
  }
  for (const char* source : {"synthetic:", "synthetic:0", "synthetic:-4", "synthetic:10x",
                             "synthetic: 10", "synthetic:99999999999999999999"}) {
    expect_error(ExitStatus::usage, {source, "number of images", "synthetic:10000"},
                 [source] { load({.source = source}); });
  }
  for (const char* source :
       {"synthetic:9@", "synthetic:9@3", "synthetic:9@3x32", "synthetic:9@3x32x", "synthetic@x3x3",
        "synthetic:9@3x32x32x32", "synthetic:9@0x32x32", "synthetic:9@3x32x5000", "synthetic@3*3*3",
        "synthetic@1x1x1:9"}) {
    expect_error(ExitStatus::usage, {source, "image shape", "synthetic:10000@3x224x224"},
                 [source] { sizes({.source = source}); });
  }
  for (const char* source :
       {"synthetic/", "synthetic:9/1", "synthetic:9/ten", "synthetic:9/10@3x8x8", "synthetic/-3"}) {
    expect_error(ExitStatus::usage, {source, "number of classes", "/100"},
                 [source] { sizes({.source = source}); });
  }
  expect_error(ExitStatus::usage, {"--train-samples 600", "synthetic:500", "500"},
               [] { load({.source = "synthetic:500", .train_samples = 600}); });
  expect_error(ExitStatus::usage, {"--test-samples 101", "100"},
               [] { load({.source = "synthetic:500", .test_samples = 101}); });
}

}  // namespace
}  // namespace lockstep::data
