// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "files.hpp"
#include "lockstep/record/run_records.hpp"

// Contents of a run file and the order in which they are written.
namespace lockstep::record {

/// Writes all data that are known before the first step. The extensible datasets are empty and the
/// status is "running". `steps_per_chunk`: chunk size of the dimension `step`.
void write_beginning(const hdf5::File& file, const RunHeader& header, const std::string& date_utc,
                     hsize_t steps_per_chunk);

/// Throws `Error` (internal) if the sizes of the epoch's arrays do not fit its number of steps and
/// the header. Returns the number of values that `write_epoch` writes.
std::size_t check_epoch(const EpochRecord& epoch, const RunHeader& header);

/// Appends the epoch as row `row` of /epochs and its steps as the rows of /steps from `first_step`
/// on.
void write_epoch(const hdf5::File& file, const EpochRecord& epoch, hsize_t first_step, hsize_t row);

/// Appends the first `count` samples as the rows of /telemetry from `first_row` on.
void write_telemetry(const hdf5::File& file, const TelemetrySamples& samples, std::size_t count,
                     hsize_t first_row);

/// Create and write the groups /allreduce, /layers, /stack and /profile.
void write_rows(const hdf5::File& file, const std::vector<AllReduceRow>& rows);
void write_rows(const hdf5::File& file, const std::vector<LayerRow>& rows);
void write_rows(const hdf5::File& file, const std::vector<StackRow>& rows);
void write_rows(const hdf5::File& file, const std::vector<ProfiledOperation>& rows);

/// Creates the group /ladder with empty datasets.
void create_ladder(const hdf5::File& file);
/// Appends `point` as row `row` of /ladder.
void write_point(const hdf5::File& file, const LadderRow& point, hsize_t row);

}  // namespace lockstep::record
