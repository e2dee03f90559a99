// libFuzzer target: for any input, the parsers of records and of class names must either succeed or
// throw an input error, for each layout of the label bytes. Any other behaviour aborts.

#include <cstdlib>

#include "data/record_formats.hpp"
#include "lockstep/core/error.hpp"

namespace {

template <class Parse>
void expect_result_or_input_error(Parse parse) {
  try {
    parse();
  } catch (const lockstep::core::Error& error) {
    if (error.status() != lockstep::core::ExitStatus::input) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  for (const RecordFormat& format : record_formats) {
    expect_result_or_input_error([&] {
      LabelledImages content;
      append_records(format, {data, size}, "input", content);
      const std::size_t labels = content.labels.size() * format.label_classes.size();
      if (content.images.size() + labels != size) std::abort();
    });
    expect_result_or_input_error([&] {
      const std::string text(data, data + size);
      if (std::ssize(parse_class_names(format, text, "input")) != format.classes()) std::abort();
    });
  }
  return 0;
}
