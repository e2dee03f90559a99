// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/train/context.hpp"

namespace lockstep::train {

/// Creates the transport of the gradients. Throws `AgreedError`. Collective: all ranks must call
/// this.
std::unique_ptr<comm::GradientTransport> make_transport(const TrainingContext& context);

/// Returns the options of the reducer. With --deterministic on CPUs, --all-reduce auto becomes a
/// fixed algorithm.
comm::ReducerOptions reducer_options(const TrainingContext& context);

}  // namespace lockstep::train
