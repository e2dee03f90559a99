// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: for any file, the images of `hdf5:FILE` must either be read or be refused with an
// input error. Any other behaviour aborts.

#include "hdf5_target.hpp"
#include "lockstep/data/dataset.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static const bool is_set_up = fuzz::keep_memory_of_closed_files();
  if (!is_set_up) std::abort();
  static const fuzz::MemoryDirectory directory;
  const auto path = directory.write("own.h5", {data, size});
  fuzz::returns_or_fails(core::ExitStatus::input, [&] {
    const auto images = data::load({.source = "hdf5:" + path.string()});
    if (images.train->size() == 0 || images.test->size() == 0) std::abort();
  });
  return 0;
}
