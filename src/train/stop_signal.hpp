#pragma once

#include <array>
#include <csignal>

namespace lockstep::train {

/// While one of these lives, SIGTERM, SIGUSR1 and SIGINT ask the run to stop at the end of a step
/// instead of ending the process. A second SIGINT ends it at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether one has come to this process.
  bool requested() const;

 private:
  static constexpr std::array signals_{SIGTERM, SIGUSR1, SIGINT};
  std::array<struct sigaction, signals_.size()> previous_{};
};

}  // namespace lockstep::train
