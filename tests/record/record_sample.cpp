// SPDX-License-Identifier: BSD-3-Clause
// Writes run files of each kind and a checkpoint into a directory; tests read them with other
// programs.
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/record/checkpoint_writer.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/record/run_file.hpp"
#include "samples.hpp"

namespace {

using namespace lockstep::record;

void write_runs(const std::filesystem::path& directory) {
  RunHeader header = samples::header(3, 2);
  for (const auto& [name, value] : provenance()) header.environment.emplace_back(name, value);
  header.telemetry_interfaces = {"eth0", "eth0", ""};
  RunFile run(directory / "run.h5", OverwriteMode::refuse, header);
  for (std::int64_t epoch = 1; epoch <= 3; ++epoch) {
    EpochRecord record = samples::epoch(epoch, epoch == 3 ? 2 : 5, header);
    if (epoch == 2) record.test_accuracy = std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      record.telemetry.rank.push_back(rank);
      for (std::size_t i = 0; i < telemetry_paths.size(); ++i) {
        record.telemetry.values.push_back(static_cast<double>(epoch) + static_cast<double>(i));
      }
      record.telemetry.traffic_bytes.insert(record.telemetry.traffic_bytes.end(), {1e6, 2e6});
    }
    run.append(record);
  }
  run.write_result("last_test_accuracy", 0.3);
  run.finish(RunStatus::complete);

  RunHeader resumed = header;
  resumed.run_id = run.run_id();
  resumed.part = 2;
  resumed.first_step = 10;
  RunFile second_part(directory / "run.part2.h5", OverwriteMode::refuse, resumed);
  second_part.append(samples::epoch(3, 5, resumed));
  second_part.finish(RunStatus::complete);

  const RunHeader alone = samples::header(1, 0);
  RunFile failed(directory / "failed.h5", OverwriteMode::refuse, alone);
  failed.append(samples::epoch(1, 4, alone));
  failed.finish(RunStatus::failed, "rank 0: the loss is not finite");

  RunFile running(directory / "running.h5", OverwriteMode::refuse, alone);
  running.append(samples::epoch(1, 4, alone));

  RunHeader without_steps = samples::header(3, 2);
  without_steps.steps_per_epoch = without_steps.images_per_epoch = 0;
  RunFile sweep(directory / "sweep.h5", OverwriteMode::refuse, without_steps);
  sweep.write_allreduce(
      {{"mpi", 4096, {1e-5, 2e-5, 3e-5}, 0}, {"direct", 8192, {2e-5, 3e-5, 4e-5}, 1}});
  const double unknown = std::nan("");
  sweep.append(LadderRow{32, "complete", 10.5, 9.5, 4761.9, 1000, 1100, 3, true});
  sweep.append(LadderRow{128, "out_of_memory", unknown, unknown, unknown, 4000, 0, 0, false});
  sweep.finish(RunStatus::complete);
}

void write_weights(const std::filesystem::path& directory) {
  std::vector<float> weight{1, 2, 3, 4, 5, 6}, mean{0.5f, -0.5f}, momentum{7, 8, 9, 10, 11, 12};
  const std::vector<Tensor> tensors{{"state", "layer1.0.conv1.weight", {1, 2, 3, 1}, weight},
                                    {"state", "layer1.0.bn1.running_mean", {2}, mean},
                                    {"momentum", "layer1.0.conv1.weight", {1, 2, 3, 1}, momentum}};
  write_checkpoint(directory / "weights.h5", tensors, {{"step", 12}, {"batches_tracked", 12}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    write_runs(argv[1]);
    write_weights(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
