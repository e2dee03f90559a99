// SPDX-License-Identifier: BSD-3-Clause
#include "processor.hpp"

#include "lockstep/core/process/system.hpp"
#include "onednn.hpp"

namespace lockstep::backend::cpu {

std::string Processor::name() const {
  const std::string model = core::cpu_model();
  return model.empty() ? "CPU" : model;
}

std::string Processor::library_versions() const { return onednn_version(); }

}  // namespace lockstep::backend::cpu
