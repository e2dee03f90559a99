// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/plausibility.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr core::ImageShape plausibility_shape{3, 4, 4};

class Plausibility : public ::testing::Test {
 protected:
  /// Returns the warnings about `train_` and `test_`.
  std::vector<std::string> warnings(Extent extent = Extent::all, std::int64_t classes = 10) const {
    TrainingData data;
    data.train = std::make_unique<const Dataset>(make_dataset(train_, plausibility_shape, classes));
    data.test = std::make_unique<const Dataset>(make_dataset(test_, plausibility_shape, classes));
    return implausible(data, extent);
  }
  void set_labels(LabelledImages& images, auto label_of) {
    for (std::size_t i = 0; i < images.labels.size(); ++i)
      images.labels[i] = static_cast<std::int32_t>(label_of(i));
  }

  LabelledImages train_ = random_content(200, plausibility_shape);
  LabelledImages test_ = random_content(50, plausibility_shape);
};

TEST_F(Plausibility, BalancedRandomImagesCauseNoWarning) { EXPECT_THAT(warnings(), IsEmpty()); }

TEST_F(Plausibility, LabelsFromOneAreNamed) {
  set_labels(train_, [](std::size_t i) { return 1 + i % 10; });
  set_labels(test_, [](std::size_t i) { return 1 + i % 10; });
  EXPECT_THAT(
      warnings(Extent::all, 11),
      ElementsAre("no training image has the label 0 (of 11 classes); labels count from 0"));
}

// Random labels of 20 images lack more than one of 11 classes, but not the same one as those of 50.
TEST_F(Plausibility, LabelsFromOneOfFewImagesAreNamed) {
  train_ = random_content(20, plausibility_shape);
  set_labels(train_, [](std::size_t i) { return 1 + i % 10; });
  EXPECT_THAT(warnings(Extent::all, 11), Each(Not(HasSubstr("label 0"))));
  set_labels(test_, [](std::size_t i) { return 1 + i % 10; });
  EXPECT_THAT(warnings(Extent::all, 11), ElementsAre(HasSubstr("label 0 (of 11 classes); labels")));
}

TEST_F(Plausibility, FirstImagesOfASortedFileAreNamed) {
  set_labels(train_, [](std::size_t i) { return i / 100; });
  EXPECT_THAT(
      warnings(Extent::first_images),
      ElementsAre(
          HasSubstr("has one of the labels 2, 3, 4, 5, ... (of 10 classes); --train-samples takes"),
          "40 of the 50 test images have classes of which there is no training image, so "
          "the test accuracy is at most 20 %"));
  // Nine images of one class are not due to chance either.
  train_ = random_content(9, plausibility_shape);
  set_labels(train_, [](std::size_t) { return 4; });
  EXPECT_THAT(warnings().front(),
              HasSubstr("no training image has one of the labels 0, 1, 2, 3, ..."));
}

// A small sample of many classes lacks some by chance.
TEST_F(Plausibility, ClassesThatASmallSampleLacksAreNotNamed) {
  core::Random random(3, core::RandomStream::test, 0);
  set_labels(train_, [&](std::size_t) { return random.bits() % 100; });
  set_labels(test_, [&](std::size_t i) { return train_.labels[i]; });
  EXPECT_THAT(warnings(Extent::all, 100), IsEmpty());
}

TEST_F(Plausibility, TestImagesThatAreTrainingImagesAreCounted) {
  std::copy_n(train_.images.begin(), 20 * 48, test_.images.begin());
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("20 of the 50 test images are also training")));
}

TEST_F(Plausibility, RepeatedTrainingImagesAreCounted) {
  std::copy_n(train_.images.begin(), 100 * 48, train_.images.begin() + 100 * 48);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("only 100 of the 200 training images")));
}

TEST_F(Plausibility, RepeatedTestImagesAreCounted) {
  std::copy_n(test_.images.begin(), 25 * 48, test_.images.begin() + 25 * 48);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("only 25 of the 50 test images")));
}

TEST_F(Plausibility, ClassOfMostTestImagesIsNamed) {
  set_labels(test_, [](std::size_t i) { return i % 5 < 3 ? 7 : i % 10; });
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("60 % of the 50 test images have the label 7")));
  set_labels(test_, [](std::size_t i) { return i % 2 == 0 ? 8 : i % 10; });
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(Plausibility, PixelsFromZeroToOneAreNamed) {
  for (std::uint8_t& pixel : train_.images) pixel /= 128;
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("are 0 or 1, but white is 255")));
}

}  // namespace
}  // namespace lockstep::data
