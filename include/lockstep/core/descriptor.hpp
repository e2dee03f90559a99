// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/handle.hpp"

namespace lockstep::core {

struct DescriptorTraits {
  using type = int;
  static type null() noexcept { return -1; }
  static void close(type descriptor) noexcept;
};

/// Owner of a file descriptor (a file, a socket).
using Descriptor = Handle<DescriptorTraits>;

}  // namespace lockstep::core
