// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "hdf5_output.hpp"
#include "lockstep/record/run_file.hpp"

// Contents of a run file and the order in which they are written.
namespace lockstep::record {

struct RunIdentity {
  std::string run_id;
  std::string date_utc;
};

/// Writes all data that are known before the first step. The extensible datasets are empty and the
/// status is "running". `steps_per_chunk`: chunk size of the dimension `step`.
void write_beginning(const hdf5::File& file, const RunHeader& header, const RunIdentity& identity,
                     hsize_t steps_per_chunk);

/// Throws `Error` (internal) if the sizes of the epoch's arrays do not fit its number of steps and
/// the header.
void check_epoch(const EpochRecord& epoch, const RunHeader& header);

/// Returns the number of bytes that `write_epoch` writes, without HDF5's chunk index.
std::size_t bytes_of(const EpochRecord& epoch);

/// Appends the epoch as row `row` of /epochs and its steps as the rows of /steps from `first_step`
/// on.
void write_epoch(const hdf5::File& file, const EpochRecord& epoch, hsize_t first_step, hsize_t row);

/// Creates and writes the group /allreduce.
void write_rows(const hdf5::File& file, const std::vector<AllReduceRow>& rows);

/// Creates and writes the group /profile.
void write_profile(const hdf5::File& file, const Profile& profile);
/// Create and write the groups /layers and /stack.
void write_rows(const hdf5::File& file, const std::vector<LayerRow>& rows);
void write_rows(const hdf5::File& file, const std::vector<StackRow>& rows);

/// Creates the group /ladder with empty datasets.
void create_ladder(const hdf5::File& file);
/// Appends `point` as row `row` of /ladder.
void write_point(const hdf5::File& file, const LadderRow& point, hsize_t row);

}  // namespace lockstep::record
