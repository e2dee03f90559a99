// SPDX-License-Identifier: BSD-3-Clause
// The binary version of CIFAR-10 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html). A
// record is one label byte (0..9) followed by 1,024 red, 1,024 green and 1,024 blue bytes, row by
// row. A file contains up to 10,000 records. Own images in this format need not fill all five files
// of training images.

#include <array>

#include "record_files.hpp"

namespace lockstep::data {

namespace {

constexpr std::array train_files{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin"};
constexpr std::array test_files{"test_batch.bin"};
constexpr std::array label_classes{10};

}  // namespace

extern const RecordFormat cifar10;
constexpr RecordFormat cifar10{
    .name = "cifar10",
    .title = "CIFAR-10",
    .help = "binary version",
    .advice = "with jobs/download-cifar10 DIR",
    .archive_folder = "cifar-10-batches-bin",
    .train_files = train_files,
    .test_files = test_files,
    .published_file = "batches.meta.txt",
    .most_records = 10'000,
    .label_classes = label_classes,
    .image = {3, 32, 32},
    .normalisation = {.mean = {0.4914f, 0.4822f, 0.4465f},
                      .standard_deviation = {0.2023f, 0.1994f, 0.2010f}},
};

}  // namespace lockstep::data
