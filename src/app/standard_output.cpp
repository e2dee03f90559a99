// SPDX-License-Identifier: BSD-3-Clause
#include "standard_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace lockstep::app {

StandardOutput::StandardOutput() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // `open` returns the lowest free descriptor, which is `stream`.
    ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void StandardOutput::separate() {
  separate_ = core::Descriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (separate_) ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

int StandardOutput::descriptor() const { return separate_ ? separate_.get() : STDOUT_FILENO; }

void StandardOutput::write(std::string_view text) noexcept {
  pollfd entry{.fd = descriptor(), .events = POLLOUT, .revents = 0};
  while (failure_ == 0 && !text.empty()) {
    const ssize_t written = ::write(descriptor(), text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno == EAGAIN)  // a non-blocking file, such as a terminal that a program shares
      ::poll(&entry, 1, -1);
    else if (errno != EINTR)
      failure_ = errno;
  }
}

core::ExitStatus StandardOutput::finish(core::ExitStatus status) {
  // Network file systems report some errors only when a descriptor of the file is closed.
  const int copy = ::dup(descriptor());
  if (copy != -1 && ::close(copy) != 0 && failure_ == 0) failure_ = errno;
  if (failure_ == 0) return status;
  core::log_line(fmt::format(
      "cannot write to standard output ({}), so what the command has printed is incomplete; its "
      "files are not affected",
      std::generic_category().message(failure_)));
  return status == core::ExitStatus::done ? core::ExitStatus::output : status;
}

}  // namespace lockstep::app
