// SPDX-License-Identifier: BSD-3-Clause
#include "dataset_match.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::train {

namespace {

std::string describe(core::ImageShape image, std::int64_t classes) {
  return fmt::format("images of {} x {} x {} in {} classes", image.channels, image.height,
                     image.width, classes);
}

}  // namespace

void require_match(const graph::Graph& graph, const data::DatasetInfo& dataset) {
  if (graph.image() == dataset.image && graph.classes() >= dataset.classes) return;
  core::fail(core::ExitStatus::usage,
             fmt::format("the network {} takes {}, but the dataset {} has {}; use another --model "
                         "or --data",
                         graph.model(), describe(graph.image(), graph.classes()), dataset.name,
                         describe(dataset.image, dataset.classes)));
}

}  // namespace lockstep::train
