// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/process_meter.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../process/control_groups.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::core {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

constexpr double ready_share = 0.5;  // of the interval, from which a thread counts as computing

/// Times of one thread, in nanoseconds since its start (/proc/PID/schedstat).
struct ThreadTimes {
  double run = 0;
  double delay = 0;
};
using Threads = std::map<std::string, ThreadTimes>;  // by thread id

struct ProcessorTimes {
  double busy = 0;
  double steal = 0;
  double other_busy = 0;  ///< of the other processors of the host
};

/// Returns the times of all threads of the process; empty if the kernel does not provide them.
Threads read_threads(const fs::path& tasks) {
  Threads threads;
  std::error_code failed;
  for (const auto& task : fs::directory_iterator(tasks, failed)) {
    std::ifstream file(task.path() / "schedstat");
    ThreadTimes times;
    if (file >> times.run >> times.delay) threads.emplace(task.path().filename(), times);
  }
  return threads;
}

/// Returns the times of these processors, and of the others, in seconds; empty if /proc/stat does
/// not list them.
std::optional<ProcessorTimes> read_processors(const fs::path& stat,
                                              const std::set<int>& processors) {
  // The fields of a line: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)). Times of
  // guests are part of the first two.
  constexpr std::array is_busy{true, true, true, false, false, true, true};
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  ProcessorTimes times;
  std::size_t found = 0;
  std::ifstream file(stat);
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    std::string_view text = line;
    const auto number = parse_number(take_field(text).substr(3));
    if (!number) continue;  // the sum of all processors
    const auto take_seconds = [&] {
      return tick * static_cast<double>(parse_number(take_field(text)).value_or(0));
    };
    double busy = 0;
    for (const bool is_counted : is_busy) {
      const double seconds = take_seconds();
      if (is_counted) busy += seconds;
    }
    if (!processors.contains(static_cast<int>(*number))) {
      times.other_busy += busy;
      continue;
    }
    ++found;
    times.busy += busy;
    times.steal += take_seconds();
  }
  if (found == 0) return std::nullopt;
  return times;
}

/// Returns the throttled periods, summed over the control groups; empty if none has a counter.
std::optional<double> read_throttled(const std::vector<ControlGroup>& groups) {
  std::optional<double> periods;
  for (const ControlGroup& group : groups) {
    std::ifstream file(group.folder / "cpu.stat");
    std::string name;
    for (double value = 0; file >> name >> value;) {
      if (name == "nr_throttled") periods = periods.value_or(0) + value;
    }
  }
  return periods;
}

struct Readings {
  Clock::time_point time;
  double cpu_seconds = 0;
  Threads threads;
  std::optional<ProcessorTimes> processors;
  std::optional<double> throttled;
};

double run_delay(const Readings& begin, const Readings& end, const std::string& first_thread) {
  double longest = ProcessorUsage::unknown;
  const double wall = std::chrono::duration<double, std::nano>(end.time - begin.time).count();
  for (const auto& [thread, times] : end.threads) {
    const auto earlier = begin.threads.find(thread);
    const ThreadTimes before = earlier == begin.threads.end() ? ThreadTimes{} : earlier->second;
    const double delay = times.delay - before.delay;
    const double ready = times.run - before.run + delay;
    if (thread == first_thread || ready >= ready_share * wall)
      longest = std::fmax(longest, 1e-9 * delay);  // fmax ignores NaN
  }
  return longest;
}

}  // namespace

ProcessUsage ProcessMeter::read() const {
  ProcessUsage usage;
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    usage.user_seconds = seconds_of(used.ru_utime);
    usage.system_seconds = seconds_of(used.ru_stime);
    usage.voluntary_switches = static_cast<double>(used.ru_nvcsw);
    usage.involuntary_switches = static_cast<double>(used.ru_nivcsw);
  }
  std::array<char, 256> buffer;
  std::string_view text = memory_.read(buffer);
  take_field(text);  // the size of the address space precedes the resident pages (proc(5))
  if (const auto pages = parse_number(take_field(text))) {
    usage.resident_bytes =
        static_cast<double>(*pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  }
  return usage;
}

void PeakMemory::begin_interval() {
  earlier_ = std::max(earlier_, resident_memory().peak);
  // 5 resets only the peak (proc(5)). Without permission the peak since the start remains valid.
  std::ofstream("/proc/self/clear_refs") << '5';
}

std::uint64_t PeakMemory::interval() const { return resident_memory().peak; }

std::uint64_t PeakMemory::total() const { return std::max(earlier_, resident_memory().peak); }

double ProcessorUsage::lacking_share() const {
  const double stolen =
      steal_seconds > 0 ? steal_seconds / (steal_seconds + busy_seconds) : steal_seconds;
  // Above 1 if a short interval ends between the readings of the clock and of the delay.
  return std::min(std::fmax(run_delay_seconds / wall_seconds, stolen), 1.0);  // fmax ignores NaN
}

struct ProcessorMeter::Parts {
  explicit Parts(const fs::path& directory)
      : root(directory), process(directory), groups(control_groups(directory, "cpu")) {}

  Readings read() const {
    const ProcessUsage usage = process.read();
    return {.time = Clock::now(),
            .cpu_seconds = usage.user_seconds + usage.system_seconds,
            .threads = read_threads(root / "proc/self/task"),
            .processors = read_processors(root / "proc/stat", processors),
            .throttled = read_throttled(groups)};
  }

  fs::path root;
  ProcessMeter process;
  std::vector<ControlGroup> groups;
  std::set<int> processors;
  Readings begin;
};

ProcessorMeter::ProcessorMeter(const fs::path& root) : parts_(std::make_unique<Parts>(root)) {}
ProcessorMeter::~ProcessorMeter() = default;

void ProcessorMeter::begin_interval() {
  parts_->processors = thread_processors();
  parts_->begin = parts_->read();
}

ProcessorUsage ProcessorMeter::interval() const {
  const Readings& begin = parts_->begin;
  const Readings end = parts_->read();
  ProcessorUsage usage;
  usage.wall_seconds = std::chrono::duration<double>(end.time - begin.time).count();
  usage.cpu_seconds = end.cpu_seconds - begin.cpu_seconds;
  usage.run_delay_seconds = run_delay(begin, end, std::to_string(::getpid()));
  if (begin.processors && end.processors) {
    usage.busy_seconds = end.processors->busy - begin.processors->busy;
    usage.steal_seconds = end.processors->steal - begin.processors->steal;
    usage.other_busy_seconds = end.processors->other_busy - begin.processors->other_busy;
  }
  if (begin.throttled && end.throttled) usage.throttled_periods = *end.throttled - *begin.throttled;
  return usage;
}

}  // namespace lockstep::core
