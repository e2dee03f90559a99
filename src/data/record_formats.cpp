// SPDX-License-Identifier: BSD-3-Clause
// The published datasets of records. The pixels of a record are 1,024 red, 1,024 green and 1,024
// blue bytes, row by row. Means and standard deviations are those of all pixels of the training
// images.

#include "record_files.hpp"

namespace lockstep::data {

const std::vector<RecordFormat>& published_formats() {
  static const std::vector<RecordFormat> formats{
      // The binary version of CIFAR-10 (Krizhevsky 2009,
      // https://www.cs.toronto.edu/~kriz/cifar.html).
      // Own images in this format need not fill all five files of training images.
      {.name = "cifar10",
       .title = "CIFAR-10",
       .help = "binary version",
       .advice = "with jobs/download-cifar10 DIR",
       .archive_folder = "cifar-10-batches-bin",
       .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                       "data_batch_4.bin", "data_batch_5.bin"},
       .test_files = {"test_batch.bin"},
       .published_file = "batches.meta.txt",
       .most_records = 10'000,
       .label_classes = {10},
       .image = {3, 32, 32},
       .normalisation = {.mean = {0.4914f, 0.4822f, 0.4465f},
                         .standard_deviation = {0.2023f, 0.1994f, 0.2010f}}},
      // The binary version of CIFAR-100 (from the same page) with a coarse and a fine label.
      {.name = "cifar100",
       .title = "CIFAR-100",
       .help = "binary version, fine labels",
       .advice = "of https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
       .archive_folder = "cifar-100-binary",
       .train_files = {"train.bin"},
       .test_files = {"test.bin"},
       .most_records = 50'000,
       .label_classes = {20, 100},
       .image = {3, 32, 32},
       .normalisation = {.mean = {0.5071f, 0.4865f, 0.4409f},
                         .standard_deviation = {0.2673f, 0.2564f, 0.2762f}}},
      // Street View House Numbers, the cropped digits (Netzer et al. 2011,
      // http://ufldl.stanford.edu/housenumbers). The published files are of MATLAB; docs/options.md
      // has the command that converts them.
      {.name = "svhn",
       .title = "SVHN",
       .help = "cropped digits, converted as docs/options.md describes",
       .advice = "by the command in docs/options.md from train_32x32.mat and test_32x32.mat",
       .train_files = {"train_32x32.bin"},
       .test_files = {"test_32x32.bin"},
       .most_records = 604'388,  // with those of extra_32x32.mat
       .label_classes = {10},
       .image = {3, 32, 32},
       .normalisation = {.mean = {0.4377f, 0.4438f, 0.4728f},
                         .standard_deviation = {0.1980f, 0.2010f, 0.1970f}}}};
  return formats;
}

}  // namespace lockstep::data
