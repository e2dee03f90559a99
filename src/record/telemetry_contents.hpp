// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "hdf5_output.hpp"
#include "lockstep/record/run_file.hpp"

// The group /telemetry of the run file.
namespace lockstep::record {

/// Creates the group with empty datasets and writes the names of the interfaces. The header must
/// have interfaces, and the scale /rank must exist.
void create_telemetry(const hdf5::File& file, const RunHeader& header);

/// Throws `Error` (internal) if the sizes of the arrays do not fit their number of samples and the
/// header, or if the header has no telemetry.
void check_telemetry(const TelemetrySamples& samples, const RunHeader& header);

/// Copies the samples of `from` to the end of `to`.
void append_samples(const TelemetrySamples& from, TelemetrySamples& to);

/// Removes the first `count` samples.
void drop_samples(TelemetrySamples& samples, std::size_t count);

/// Appends the first `count` samples as the rows from `first_row` on.
void write_telemetry(const hdf5::File& file, const TelemetrySamples& samples, std::size_t count,
                     hsize_t first_row);

}  // namespace lockstep::record
