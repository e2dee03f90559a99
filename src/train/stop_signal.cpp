#include "stop_signal.hpp"

namespace lockstep::train {

namespace {
// A signal handler reaches nothing but what stands at file scope.
volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) { stop_requested = 1; }
}  // namespace

StopSignal::StopSignal() {
  stop_requested = 0;
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
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    sigaction(signals_[i], &previous_[i], nullptr);
  }
}

bool StopSignal::requested() const { return stop_requested != 0; }

}  // namespace lockstep::train
