#pragma once

#include <array>
#include <csignal>

namespace lockstep::train {

/// While an object of this class exists, SIGTERM, SIGUSR1 and SIGINT request a stop instead of
/// ending the process. A second SIGINT ends it at once. Objects nest: the outermost one installs
/// the handlers, and a request is remembered until it is destroyed.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether this process has received one of the signals.
  bool requested() const { return number() != 0; }
  /// Number of the last such signal; 0 if there was none.
  int number() const;

 private:
  static constexpr std::array signals_{SIGTERM, SIGUSR1, SIGINT};
  std::array<struct sigaction, signals_.size()> previous_{};
};

}  // namespace lockstep::train
