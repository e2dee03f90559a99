// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "lockstep/record/checkpoint.hpp"

namespace lockstep::record {

/// The tensors of a small network, with their own memory.
class Weights {
 public:
  /// `more`: number of further tensors in the group "state".
  explicit Weights(float first, int more = 0) {
    add("state", "conv1.weight", {4, 3, 3, 3}, first);
    add("state", "layer1.0.bn1.running_mean", {4}, first + 1);
    add("state", "linear.bias", {10}, first + 2);
    add("momentum", "conv1.weight", {4, 3, 3, 3}, first + 3);
    add("momentum", "linear.bias", {10}, first + 4);
    for (int i = 0; i < more; ++i) {
      add("state", "more." + std::to_string(i), {3}, first + 5 + static_cast<float>(i));
    }
  }

  std::vector<Tensor>& tensors() { return tensors_; }
  const std::deque<std::vector<float>>& values() const { return values_; }

 private:
  void add(const std::string& group, const std::string& name,
           const std::vector<std::int64_t>& shape, float first) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    auto& values = values_.emplace_back();
    for (std::int64_t i = 0; i < elements; ++i) {
      values.push_back(first + 0.001f * static_cast<float>(i));
    }
    tensors_.push_back({group, name, shape, values});
  }

  std::deque<std::vector<float>> values_;  // a deque keeps the spans in `tensors_` valid
  std::vector<Tensor> tensors_;
};

inline const Counters some_counters{{"batches_tracked", 17}, {"seed", -3}, {"step", 17}};

}  // namespace lockstep::record
