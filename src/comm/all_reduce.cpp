#include <fmt/format.h>
#include <sched.h>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

std::string_view name(AllReduceWay way) {
  switch (way) {
    case AllReduceWay::automatic: return "auto";
    case AllReduceWay::shared: return "shared";
    case AllReduceWay::two_level: return "two-level";
    case AllReduceWay::pieces: return "pieces";
    case AllReduceWay::ring: return "ring";
    case AllReduceWay::mpi: return "mpi";
  }
  core::check(false, "unknown way to sum");
  return {};
}

core::DataType communication_type(AllReduceWay way, core::DataType wanted) {
  const bool converts = way == AllReduceWay::pieces || way == AllReduceWay::two_level;
  return converts ? wanted : core::DataType::float32;
}

void AllReduce::finish() {
  // If ranks share a core, the rank that this one waits for must be able to run.
  while (!progress()) sched_yield();
}

void check_wire(core::DataType wire) {
  if (wire == core::DataType::float32 || wire == core::DataType::bfloat16) return;
  core::fail(core::ExitStatus::usage,
             fmt::format("gradients cannot travel as {} here (its range is too small for sums "
                         "without scaling); use fp32 or bf16",
                         core::name(wire)));
}

}  // namespace lockstep::comm
