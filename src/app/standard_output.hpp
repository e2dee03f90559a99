// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/handle.hpp"

namespace lockstep::app {

/// The standard output of the program. An error, for example a full disk or a pipe whose reader has
/// ended, does not stop the command: further output is dropped, and `finish` reports the error when
/// the command is complete. `run_process` owns the only object.
class StandardOutput {
 public:
  /// Opens /dev/null in place of standard streams that are closed, because the next file that is
  /// opened would otherwise get their descriptor and their output; writing to a stdout that was
  /// closed still fails. Ignores SIGPIPE and SIGXFSZ, so that writing fails with an error instead.
  StandardOutput();

  /// Redirects descriptor 1 to stderr. From now on, stdout contains only what `write` prints, and
  /// not the output of libraries, such as that of oneDNN if ONEDNN_VERBOSE is set.
  void separate();

  void write(std::string_view text) noexcept;

  /// Returns the descriptor to which `write` writes.
  int descriptor() const;

  /// To be called when the command is complete. Returns `status` if everything was written.
  /// Otherwise logs a message and returns `output` if `status` is `done`, else `status`.
  core::ExitStatus finish(core::ExitStatus status);

 private:
  core::Descriptor separate_;  ///< empty until `separate`
  int failure_ = 0;            ///< error number of the first write that failed
};

}  // namespace lockstep::app
