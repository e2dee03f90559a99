// SPDX-License-Identifier: BSD-3-Clause
#include "process_end_report.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/progress.hpp"
#include "watchdog.hpp"

namespace lockstep::app {

namespace {

struct FatalSignal {
  int number;
  std::string_view name;
};
constexpr std::array<FatalSignal, 5> fatal_signals{{{SIGSEGV, "SIGSEGV (invalid memory access)"},
                                                    {SIGBUS, "SIGBUS (invalid memory access)"},
                                                    {SIGFPE, "SIGFPE (arithmetic error)"},
                                                    {SIGILL, "SIGILL (invalid instruction)"},
                                                    {SIGABRT, "SIGABRT (abort)"}}};

// Signal handlers have no other access to objects.
std::atomic<const Watchdog*> watched = nullptr;
std::array<struct sigaction, fatal_signals.size()> previous;

/// Writes "lockstep: NAME: WHAT during ACTIVITY of step N". Calls only functions that are safe in
/// signal handlers.
void write_line(const Watchdog& watchdog, std::string_view what) noexcept {
  std::array<char, 512> line{};
  std::size_t size = 0;
  const auto append = [&](std::string_view text) {
    const std::size_t count = std::min(text.size(), line.size() - 1 - size);
    std::copy_n(text.begin(), count, line.begin() + static_cast<std::ptrdiff_t>(size));
    size += count;
  };
  append("lockstep: ");
  append(watchdog.name());
  append(": ");
  append(what);
  append(" during ");
  append(core::text_of(watchdog.activity()));
  if (const std::int64_t step = watchdog.step(); step > 0) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), step).ptr;
    append(" of step ");
    append({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  line[size++] = '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), size);
}

extern "C" void report_signal(int number) {
  if (const Watchdog* const watchdog = watched.exchange(nullptr)) {
    const auto signal = std::ranges::find(fatal_signals, number, &FatalSignal::number);
    write_line(*watchdog, signal->name);
  }
  for (std::size_t i = 0; i < fatal_signals.size(); ++i) {
    if (fatal_signals[i].number == number) ::sigaction(number, &previous[i], nullptr);
  }
  ::raise(number);  // delivered when this handler returns
}

extern "C" void report_exit() {
  const Watchdog* const watchdog = watched.exchange(nullptr);
  if (watchdog == nullptr) return;
  write_line(*watchdog, "the process has called exit");
  ::_exit(static_cast<int>(core::ExitStatus::internal));
}

}  // namespace

ProcessEndReport::ProcessEndReport(const Watchdog& watchdog) {
  watched = &watchdog;
  std::atexit(report_exit);
  for (std::size_t i = 0; i < fatal_signals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = report_signal;
    sigemptyset(&action.sa_mask);
    ::sigaction(fatal_signals[i].number, &action, &previous[i]);
  }
}

void ProcessEndReport::disable() noexcept { watched = nullptr; }

ProcessEndReport::~ProcessEndReport() {
  disable();
  for (std::size_t i = 0; i < fatal_signals.size(); ++i)
    ::sigaction(fatal_signals[i].number, &previous[i], nullptr);
}

}  // namespace lockstep::app
