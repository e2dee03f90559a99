// SPDX-License-Identifier: BSD-3-Clause
// Writes the input of make_golden.py, which repeats the golden run in PyTorch: the initial weights
// (/state) and the images and labels (/input), all as float32.
//
//   golden_input FILE.h5

#include <cstdio>
#include <string>
#include <vector>

#include "golden.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/record/checkpoint_writer.hpp"

namespace {

using namespace lockstep;

void write(const std::string& path) {
  const graph::Graph graph = graph::make_model("resnet18-cifar", {});
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
  const backend::ModelState state = backend->make_state(graph);
  graph::initialise_parameters(graph, golden::seed, state.parameters.as<float>());
  graph::initialise_statistics(graph, state.statistics.as<float>());

  const auto set = golden::images();
  std::vector<float> pixels(set->pixels().begin(), set->pixels().end());
  std::vector<float> labels(set->labels().begin(), set->labels().end());
  const auto count = static_cast<std::int64_t>(set->size());
  std::vector<record::Tensor> tensors{{"input", "images", {count, 3, 32, 32}, pixels},
                                      {"input", "labels", {count}, labels}};
  for (const graph::Parameter& p : graph.parameters()) {
    tensors.push_back(
        {"state", p.name, p.shape, state.parameters.as<float>().subspan(p.offset, p.elements)});
  }
  for (const graph::Statistic& s : graph.statistics()) {
    tensors.push_back({"state",
                       s.name,
                       {static_cast<std::int64_t>(s.elements)},
                       state.statistics.as<float>().subspan(s.offset, s.elements)});
  }
  record::write_checkpoint(path, tensors, {{"batches_tracked", 0}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_input FILE.h5\n");
    return 2;
  }
  try {
    write(argv[1]);
  } catch (const core::Error& error) {
    std::fprintf(stderr, "golden_input: %s\n", error.what());
    return static_cast<int>(error.status());
  }
}
