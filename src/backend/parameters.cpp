// SPDX-License-Identifier: BSD-3-Clause
#include "parameters.hpp"

#include <algorithm>
#include <bit>

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

namespace {

/// Returns the hash of one parameter, given its bits and its index in the flat buffer. For equal
/// indices, different bits have different hashes: the function is a bijection of the 64-bit number
/// (index mod 2^32, bits), the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
std::uint64_t element_hash(std::uint64_t index, std::uint32_t bits) {
  std::uint64_t value = (index << 32) + bits + 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

}  // namespace

std::vector<optim::ParameterRange> parameter_ranges(const graph::Graph& graph) {
  std::vector<optim::ParameterRange> ranges;
  for (const graph::Parameter& parameter : graph.parameters())
    ranges.push_back(
        {parameter.offset, parameter.offset + parameter.elements, parameter.is_vector()});
  std::ranges::sort(ranges, {}, &optim::ParameterRange::begin);
  return ranges;
}

std::uint64_t parameter_hash(std::span<const float> parameters) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sum += element_hash(i, std::bit_cast<std::uint32_t>(parameters[i]));
  return sum;
}

std::uint64_t Backend::parameter_hash(const ModelState& state) const {
  return backend::parameter_hash(state.parameters.as<float>());
}

}  // namespace lockstep::backend
