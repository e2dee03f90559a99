// SPDX-License-Identifier: BSD-3-Clause
// Writes and checks files with the module `record`, for tests that make calls fail or kill it.
//   storage_work checkpoints DIRECTORY FIRST LAST  saves the checkpoints of these steps; prints
//   each
//                                                  step after it was saved
//   storage_work run FILE EPOCHS                   writes a run file
//   storage_work newest DIRECTORY                  prints the step of the newest valid checkpoint

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/run_file.hpp"
#include "record/samples.hpp"
#include "record/weights.hpp"

namespace {

using namespace lockstep::record;

void save_checkpoints(const std::string& directory, std::int64_t first, std::int64_t last) {
  CheckpointStore store(directory, 3, "run 1");
  for (std::int64_t step = first; step <= last; ++step) {
    Weights weights(static_cast<float>(step));
    store.save(step, weights.tensors(), {{"step", step}, {"batches_tracked", step}});
    const std::string line = std::to_string(step) + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(1);
  }
}

void write_run(const std::string& path, int epochs) {
  const RunHeader header = samples::header(2, 1);
  RunFile run(path, OverwriteMode::replace, header);
  for (int epoch = 1; epoch <= epochs; ++epoch) run.append(samples::epoch(epoch, 4, header));
  run.finish(RunStatus::complete);
}

/// Prints the step of the newest valid checkpoint, or 0. Fails if its weights are of another step.
void print_newest(const std::string& directory) {
  const auto newest = newest_checkpoint(directory);
  std::int64_t step = 0;
  if (newest) {
    Weights weights(0);
    for (const auto& [name, value] :
         read_checkpoint(*newest, weights.tensors(), Verify::required)) {
      if (name == "step") step = value;
    }
    if (weights.values() != Weights(static_cast<float>(step)).values()) std::abort();
  }
  std::printf("%lld\n", static_cast<long long>(step));
}

}  // namespace

int main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // fail_allocation counts from this call
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    if (command == "checkpoints" && argc == 5) {
      save_checkpoints(argv[2], std::atoll(argv[3]), std::atoll(argv[4]));
    } else if (command == "run" && argc == 4) {
      write_run(argv[2], std::atoi(argv[3]));
    } else if (command == "newest" && argc == 3) {
      print_newest(argv[2]);
    } else {
      return 2;
    }
  } catch (const lockstep::core::Error& error) {
    lockstep::core::log_line(error.what());
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    lockstep::core::log_line("not enough memory");
    return static_cast<int>(lockstep::core::ExitStatus::out_of_memory);
  } catch (const std::exception& error) {
    lockstep::core::log_line(error.what());
    return static_cast<int>(lockstep::core::ExitStatus::internal);
  }
  return 0;
}
