// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: for any input, the parser of records must either succeed or throw an input error,
// for each layout of the label bytes. Any other behaviour aborts.

#include "data/record_formats.hpp"
#include "fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  using lockstep::core::ExitStatus;
  for (const RecordFormat& format : record_formats) {
    lockstep::fuzz::returns_or_fails(ExitStatus::input, [&] {
      LabelledImages content;
      append_records(format, {data, size}, "input", content);
      const std::size_t labels = content.labels.size() * format.label_classes.size();
      if (content.images.size() + labels != size) std::abort();
    });
  }
  return 0;
}
