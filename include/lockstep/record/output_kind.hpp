// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace lockstep::record {

/// Contents of the files that options name as outputs.
enum class OutputKind { run_file, trace, engine_log };

/// Handling of an existing file: report an error, or replace it if it is of the same kind.
enum class OverwriteMode { refuse, replace };

}  // namespace lockstep::record
