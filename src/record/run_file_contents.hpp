#pragma once

#include <string>

#include "hdf5.hpp"
#include "lockstep/record/run_file.hpp"

// What is written into a run file, and in which order.
namespace lockstep::record {

struct RunIdentity {
  std::string run_id;
  std::string date_utc;
};

/// Everything that is known before the first step, with all growing columns empty and the status
/// "running".
void write_beginning(const hdf5::File& file, const RunHeader& header, const RunIdentity& identity,
                     hsize_t steps_per_chunk);

/// Throws `Error` (internal) unless the epoch's arrays fit its steps and the header.
void check_epoch(const EpochRecord& epoch, const RunHeader& header);

/// Writes the epoch as row `row` of /epochs, its steps from `first_step` on.
void write_epoch(const hdf5::File& file, const EpochRecord& epoch, hsize_t first_step, hsize_t row);

void write_rows(const hdf5::File& file, const std::vector<AllReduceRow>& rows);

/// Creates the empty table of a ladder.
void create_ladder(const hdf5::File& file);
/// Appends a point as row `row` of the ladder.
void write_point(const hdf5::File& file, const LadderRow& point, hsize_t row);

}  // namespace lockstep::record
