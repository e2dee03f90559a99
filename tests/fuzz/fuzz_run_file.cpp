// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: for any file in the place of a run file, the program that resumes the run must find
// either that the file belongs to the run, or that it does not. Any other behaviour aborts.

#include "hdf5_target.hpp"
#include "lockstep/record/output_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::record;
  using lockstep::core::ExitStatus;
  static const bool is_set_up = lockstep::fuzz::keep_memory_of_closed_files();
  if (!is_set_up) std::abort();
  static const lockstep::fuzz::MemoryDirectory directory;
  const auto path = directory.write("run.h5", {data, size});
  const std::string run_id = run_id_of(path);
  if (run_id.empty()) return 0;
  const RunPart next = next_part(path, run_id, 2);
  if (next.part != 2 || next.path != directory.path() / "run.part2.h5") std::abort();
  return 0;
}
