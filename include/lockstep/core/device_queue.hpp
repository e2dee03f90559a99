// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/core/data_type.hpp"

namespace lockstep::core {

/// In-order work queue of a device: a CUDA stream, or no stream if the device is the host.
struct DeviceQueue {
  int device = -1;         ///< CUDA device index; -1 for the host
  void* stream = nullptr;  ///< a cudaStream_t; null for the host
  std::string uuid{};      ///< of the GPU, or of the part of one (MIG); empty for the host

  bool is_host() const { return device < 0; }
};

/// Non-owning view of the flat gradient buffer in the memory of the device (host memory on CPUs).
struct GradientArray {
  std::byte* data = nullptr;
  std::size_t elements = 0;
  DataType type = DataType::float32;
};

}  // namespace lockstep::core
