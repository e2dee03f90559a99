// libFuzzer target: for any input, the parsers of records and of class names must either succeed or
// throw an input error. Any other behaviour aborts.

#include <cstdlib>

#include "cifar10.hpp"
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
  namespace cifar10 = lockstep::data::cifar10;
  expect_result_or_input_error([=] {
    lockstep::data::Dataset set;
    cifar10::append_records({data, size}, "input", set);
    if (set.images.size() + set.labels.size() != size) std::abort();
  });
  expect_result_or_input_error([=] {
    const std::string text(data, data + size);
    if (cifar10::parse_class_names(text, "input").size() != cifar10::classes) std::abort();
  });
  return 0;
}
