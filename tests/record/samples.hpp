// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/record/run_records.hpp"

// Small synthetic records whose values can be recomputed from their positions.
namespace lockstep::record::samples {

inline RunHeader header(int ranks, int buckets) {
  RunHeader header;
  header.steps_per_epoch = 5;
  header.images_per_epoch = 320;
  header.command_line = "lockstep train --model \"Größe\"";
  header.config = {{"model", "resnet18-cifar"}, {"batch-per-rank", "32"}, {"init-from", ""}};
  header.environment = {{"hdf5_version", "1.10.8"}, {"OMP_NUM_THREADS", "1"}};
  for (int rank = 0; rank < ranks; ++rank) {
    header.ranks.push_back({.rank = rank,
                            .local_rank = rank % 2,
                            .hostname = "node" + std::to_string(rank / 2),
                            .cpu_list = "0-3,8",
                            .core_list = "0-1,8",
                            .device_name = "Some Processor",
                            .device_uuid = "",
                            .pci_bus_id = "",
                            .memory_bytes = std::uint64_t{1} << 36,
                            .host = rank / 2});
  }
  for (int bucket = 0; bucket < buckets; ++bucket) {
    header.bucket_sizes.push_back(static_cast<std::uint64_t>(bucket + 1) << 20);
  }
  return header;
}

/// Returns the value at position `index` of the arrays of epoch `epoch`; it differs from position
/// to position.
inline double value(std::int64_t epoch, std::size_t index) {
  return static_cast<double>(epoch) + 1e-6 * static_cast<double>(index);
}

inline std::vector<double> values(std::int64_t epoch, std::size_t count) {
  std::vector<double> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(value(epoch, i));
  return all;
}

inline EpochRecord epoch(std::int64_t number, std::size_t steps, const RunHeader& header) {
  EpochRecord record;
  record.epoch = number;
  record.learning_rate.assign(steps, 0.1);
  record.loss = values(number, steps);
  record.images.assign(steps, 64);
  record.phase_seconds = values(number, steps * header.ranks.size() * 6);
  const std::size_t times = steps * header.ranks.size() * header.bucket_sizes.size();
  record.bucket_start_seconds = values(number, times);
  record.bucket_end_seconds = values(number + 1, times);
  const std::size_t ranks = header.ranks.size();
  record.measurements["/epochs/energy_joules"].assign(ranks, 900.5);
  record.measurements["/epochs/memory_used_bytes"].assign(ranks, 1e9);
  record.seconds = 1000;  // more than the phases of its steps
  record.evaluation_seconds = 1.25;
  record.train_loss = 2.0;
  record.train_accuracy = 0.25;
  record.test_loss = 2.1;
  record.test_accuracy = 0.3;
  record.parameter_hash = "0123456789abcdef";
  return record;
}

}  // namespace lockstep::record::samples
