// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "batch_feed.hpp"

namespace lockstep::train {

/// Creates the feed of a parameter server: rank 0 prepares the global batch and sends each rank its
/// part in `upload`, where the other ranks wait for it. They read no images. `replicas` must have
/// several ranks, each with `batch_per_rank` images; for the other arguments see `make_batch_feed`.
std::unique_ptr<BatchFeed> make_scattered_feed(const data::DataOptions& options,
                                               const data::Dataset& images,
                                               std::size_t batch_per_rank,
                                               comm::Communicator& replicas, backend::Plan& plan);

}  // namespace lockstep::train
