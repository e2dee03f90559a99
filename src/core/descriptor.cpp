// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/descriptor.hpp"

#include <unistd.h>

#include "lockstep/core/log.hpp"

namespace lockstep::core {

void DescriptorTraits::close(type descriptor) noexcept {
  if (::close(descriptor) != 0) log_warning("closing a file failed");
}

}  // namespace lockstep::core
