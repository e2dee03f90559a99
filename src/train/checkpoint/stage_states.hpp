// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::train {

/// Copies the states of the stages of the first replica to rank 0 for a checkpoint, and back after
/// a resume. A checkpoint therefore has the tensors of the whole network, as if one rank had
/// trained it.
class StageStates {
 public:
  /// `own`: state of this rank's stage. `pipeline` may be null: there is one stage. Both must
  /// outlive this object.
  StageStates(const Pipeline* pipeline, backend::ModelState& own);

  /// Copies the states of the other stages to rank 0. The views that `all` has returned stay valid.
  /// Collective: all ranks must call this.
  void gather();

  /// Return views of the weights, and of the weights and the optimiser, of the other stages on rank
  /// 0, to be written to a file or filled from one.
  std::vector<record::Tensor> weights();
  std::vector<record::Tensor> all();

  /// Copies the states that rank 0 has for the stages to them. Collective: all ranks must call
  /// this.
  void distribute();

  /// Frees the copies on rank 0, which further calls allocate again.
  void release() { others_.clear(); }

 private:
  void allocate();

  const Pipeline* pipeline_;
  backend::ModelState& own_;
  std::vector<backend::ModelState> others_;  ///< on rank 0: of stages 1, 2, ...; empty until needed
};

}  // namespace lockstep::train
