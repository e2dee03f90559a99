#pragma once

#include "lockstep/record/run_file.hpp"

namespace lockstep::record {

/// What this build is and where it runs: versions of the libraries it was built with, compiler,
/// flags, commit, and the environment variables on the allow-list (SLURM_*, NCCL_*, OMPI_*, OMP_*,
/// UCX_*, CUDA_VISIBLE_DEVICES).
Attributes provenance();

/// A short text that differs between builds whose results may differ: version, commit, compiler,
/// flags. Ranks compare it.
std::string build_id();

/// This process: host name, processors it may use, processor model, memory. Rank numbers are left
/// at 0.
RankInfo describe_process();

/// Bytes of this process's memory that are resident now, and at most so far (Linux: VmRSS, VmHWM).
struct ResidentMemory {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;
};
ResidentMemory resident_memory();

}  // namespace lockstep::record
