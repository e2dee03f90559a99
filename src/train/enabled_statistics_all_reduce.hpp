// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

#include "lockstep/core/replica.hpp"

namespace lockstep::train {

/// An all-reduce of batch-norm statistics that does nothing while it is disabled: each rank loads
/// its kernels without the other ranks. Disabled at first.
class EnabledStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  explicit EnabledStatisticsAllReduce(core::StatisticsAllReduce& all_reduce)
      : all_reduce_(all_reduce) {}

  void set_enabled(bool is_enabled) { is_enabled_ = is_enabled; }
  int replicas() const override { return all_reduce_.replicas(); }
  void sum(std::span<float> values) override {
    if (is_enabled_) all_reduce_.sum(values);
  }
  void throw_if_failed() override { all_reduce_.throw_if_failed(); }

 private:
  core::StatisticsAllReduce& all_reduce_;
  bool is_enabled_ = false;
};

}  // namespace lockstep::train
