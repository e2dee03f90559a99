#pragma once

namespace lockstep::comm {

/// How often this program has called operator new so far.
long allocations();

}  // namespace lockstep::comm
