#pragma once

namespace lockstep::comm {

/// Returns the number of calls of operator new in this program so far.
long allocations();

}  // namespace lockstep::comm
