// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: for any file, the readers of checkpoints must either succeed or throw an input
// error. A file that is accepted as a complete checkpoint must have a digest that matches, so it
// must be accepted by all readers. Any other behaviour aborts.

#include "hdf5_target.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "record/weights.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::record;
  using lockstep::core::ExitStatus;
  using lockstep::fuzz::returns_or_fails;
  static const bool is_set_up = lockstep::fuzz::keep_memory_of_closed_files();
  if (!is_set_up) std::abort();
  static const lockstep::fuzz::MemoryDirectory directory;
  static Weights weights(1);
  const auto path = directory.write("checkpoint-1.h5", {data, size});
  returns_or_fails(ExitStatus::input,
                   [&] { read_checkpoint(path, weights.tensors(), Verify::if_present); });
  const bool is_complete = returns_or_fails(
      ExitStatus::input, [&] { read_checkpoint(path, weights.tensors(), Verify::required); });
  const bool is_verified =
      returns_or_fails(ExitStatus::input, [&] { read_checkpoint(path, {}, Verify::required); });
  if (is_complete && !is_verified) std::abort();
  if (newest_checkpoint(directory.path()).has_value() != is_verified) std::abort();
  return 0;
}
