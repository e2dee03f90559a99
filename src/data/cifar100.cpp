// SPDX-License-Identifier: BSD-3-Clause
// The binary version of CIFAR-100 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html). A
// record is one byte with the coarse label (0..19), one byte with the fine label (0..99), which is
// the label of the image, and 1,024 red, 1,024 green and 1,024 blue bytes, row by row.

#include <array>

#include "record_files.hpp"

namespace lockstep::data {

namespace {

constexpr std::array train_files{"train.bin"};
constexpr std::array test_files{"test.bin"};
constexpr std::array label_classes{20, 100};

}  // namespace

extern const RecordFormat cifar100;
constexpr RecordFormat cifar100{
    .name = "cifar100",
    .title = "CIFAR-100",
    .help = "binary version, fine labels",
    .advice = "of https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    .archive_folder = "cifar-100-binary",
    .train_files = train_files,
    .test_files = test_files,
    .most_records = 50'000,
    .label_classes = label_classes,
    .image = {3, 32, 32},
    // Mean and standard deviation over all pixels of the 50,000 training images.
    .normalisation = {.mean = {0.5071f, 0.4865f, 0.4409f},
                      .standard_deviation = {0.2673f, 0.2564f, 0.2762f}},
};

}  // namespace lockstep::data
