#pragma once

#include <string>

namespace lockstep::comm {

/// Returns the name of this host; "unknown" if the system does not provide it.
std::string host_name();

}  // namespace lockstep::comm
