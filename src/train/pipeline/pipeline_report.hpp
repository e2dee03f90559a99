#pragma once

#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::train {

/// What the console and the run file report about the stages of a pipeline. Without pipeline, these
/// functions do nothing. `plan`: the training plan of this rank. The functions that return or add
/// values are collective over all ranks.

/// Returns the descriptions of the stages of the first replica on rank 0.
std::vector<StageDescription> describe_stages(const Pipeline* pipeline, comm::Communicator& world,
                                              const backend::Plan& plan);

/// Discards the durations of the passes, copies and waits. Not collective.
void reset_pipeline_seconds(const Pipeline* pipeline, backend::Plan& plan);

/// Adds the durations of all ranks to `epoch` on rank 0.
void add_pipeline_seconds(const Pipeline* pipeline, comm::Communicator& world,
                          const backend::Plan& plan, record::EpochRecord& epoch);

}  // namespace lockstep::train
