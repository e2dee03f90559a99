#pragma once

#include <cstddef>

#include "lockstep/core/data_type.hpp"

namespace lockstep::core {

/// Where a device does its work in order: a CUDA stream, or nothing where the host itself works.
struct DeviceQueue {
  int device = -1;         ///< the runtime's number of the device; -1: the host
  void* stream = nullptr;  ///< cudaStream_t

  bool is_host() const { return device < 0; }
};

/// The flat gradients where the device has them.
struct GradientArray {
  std::byte* data = nullptr;
  std::size_t elements = 0;
  DataType type = DataType::float32;
};

}  // namespace lockstep::core
