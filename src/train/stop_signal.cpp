#include "stop_signal.hpp"

namespace lockstep::train {

namespace {
// A signal handler can only reach variables at file scope.
volatile std::sig_atomic_t received_signal = 0;
void request_stop(int number) { received_signal = number; }
int nesting = 0;  ///< number of existing objects; used by the main thread only
}  // namespace

StopSignal::StopSignal() {
  if (nesting++ > 0) return;
  received_signal = 0;
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    if (signals_[i] == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(signals_[i], &action, &previous_[i]);
  }
}

StopSignal::~StopSignal() {
  if (--nesting > 0) return;
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    sigaction(signals_[i], &previous_[i], nullptr);
  }
}

int StopSignal::number() const { return received_signal; }

}  // namespace lockstep::train
