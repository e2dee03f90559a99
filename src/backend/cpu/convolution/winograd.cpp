// SPDX-License-Identifier: BSD-3-Clause
#include "winograd.hpp"

#include "winograd_directions.hpp"
#include "winograd_map_direction.hpp"
#include "winograd_weights_direction.hpp"

namespace lockstep::backend::cpu::winograd {

bool fits(const ConvolutionProblem& problem) {
  const auto& [direction, sizes, source, destination] = problem;
  const int lanes = lanes_for(source, destination);
  const std::int64_t panel = panel_lanes(lanes);
  return source.images_per_block() == 1 && destination.images_per_block() == 1 &&
         sizes.kernel == 3 && (sizes.stride == 1 || sizes.stride == 2) && sizes.padding == 1 &&
         sizes.in_channels % panel == 0 && sizes.out_channels % panel == 0 &&
         source.lanes() % lanes == 0 && destination.lanes() % lanes == 0;
}

std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem, int threads) {
  return problem.direction == Direction::backward_weights ? make_weights_direction(problem, threads)
                                                          : make_map_direction(problem, threads);
}

}  // namespace lockstep::backend::cpu::winograd
