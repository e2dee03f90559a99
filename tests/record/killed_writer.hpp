// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>

#include "lockstep/core/random.hpp"

namespace lockstep::record {

/// Notifies the parent process through a pipe that record `number` is complete.
class Acknowledgement {
 public:
  explicit Acknowledgement(int pipe) : pipe_(pipe) {}
  void operator()(std::int64_t number) const {
    if (::write(pipe_, &number, sizeof number) < 0) ::_exit(1);
  }

 private:
  int pipe_;
};

/// Runs `write(acknowledge)`, which never returns, in a child process and kills the child with
/// SIGKILL at a random time, up to 20 ms after its first acknowledgement. Returns the last number
/// that the child acknowledged.
template <class Write>
std::int64_t kill_writer(core::Random& random, Write write) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) ADD_FAILURE() << "no pipe";
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::close(pipe[0]);
    write(Acknowledgement(pipe[1]));
    ::_exit(1);
  }
  EXPECT_GT(writer, 0);
  ::close(pipe[1]);
  std::int64_t acknowledged = 0;
  EXPECT_EQ(::read(pipe[0], &acknowledged, sizeof acknowledged),
            static_cast<ssize_t>(sizeof acknowledged));
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(20'000)));
  if (writer > 0) {
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
  }
  std::int64_t more = 0;
  while (::read(pipe[0], &more, sizeof more) == sizeof more) acknowledged = more;
  ::close(pipe[0]);
  return acknowledged;
}

}  // namespace lockstep::record
