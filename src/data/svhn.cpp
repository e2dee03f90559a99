// SPDX-License-Identifier: BSD-3-Clause
// Street View House Numbers, the cropped digits (Netzer et al. 2011,
// http://ufldl.stanford.edu/housenumbers). A record is one label byte, the digit (0..9), followed
// by 1,024 red, 1,024 green and 1,024 blue bytes, row by row. The published files are of MATLAB;
// docs/options.md has the command that converts them.

#include <array>

#include "record_files.hpp"

namespace lockstep::data {

namespace {

constexpr std::array train_files{"train_32x32.bin"};
constexpr std::array test_files{"test_32x32.bin"};
constexpr std::array label_classes{10};

}  // namespace

extern const RecordFormat svhn;
constexpr RecordFormat svhn{
    .name = "svhn",
    .title = "SVHN",
    .help = "cropped digits, converted as docs/options.md describes",
    .advice =
        "by the command in docs/options.md from train_32x32.mat and "
        "test_32x32.mat",
    .train_files = train_files,
    .test_files = test_files,
    .most_records = 604'388,  // with those of extra_32x32.mat
    .label_classes = label_classes,
    .image = {3, 32, 32},
    // Mean and standard deviation over all pixels of the 73,257 training images.
    .normalisation = {.mean = {0.4377f, 0.4438f, 0.4728f},
                      .standard_deviation = {0.1980f, 0.2010f, 0.1970f}},
};

}  // namespace lockstep::data
