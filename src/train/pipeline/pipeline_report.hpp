// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "../timing/instrument.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"
#include "pipeline_plan.hpp"

namespace lockstep::train {

/// Returns the descriptions of the stages of the first replica on rank 0; nothing without pipeline.
/// `plan`: the training plan of this rank. Collective.
std::vector<StageDescription> describe_stages(const Pipeline* pipeline, comm::Communicator& world,
                                              const backend::Plan& plan);

/// Records the durations of the passes, copies and waits of a pipeline.
class PipelineReport final : public Instrument {
 public:
  /// `plan`: one of `make_pipeline_plan`. Both must outlive this object.
  PipelineReport(backend::Plan& plan, comm::Communicator& world);

  void begin_epoch() override;
  void add_to(record::EpochRecord& epoch) override;

 private:
  PipelinePlan& plan_;
  comm::Communicator& world_;
};

}  // namespace lockstep::train
