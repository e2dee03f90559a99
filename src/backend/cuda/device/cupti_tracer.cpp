#include "cupti_tracer.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "cupti_records.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

namespace {

using cupti::Status;

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

struct Library {
  Status (*register_callbacks)(cupti::RequestBuffer, cupti::CompleteBuffer) = nullptr;
  Status (*enable)(cupti::Kind) = nullptr;
  Status (*disable)(cupti::Kind) = nullptr;
  Status (*flush)(std::uint32_t flag) = nullptr;
  Status (*next_record)(std::uint8_t* buffer, std::size_t bytes, void** record) = nullptr;
  Status (*timestamp)(std::uint64_t* nanoseconds) = nullptr;
  Status (*describe)(Status, const char** text) = nullptr;

  /// Throws `Error` (usage) if a call has failed. `what`: what the call does.
  void check(Status status, const char* what, core::ExitStatus exit) const {
    if (status == cupti::success) return;
    const char* text = nullptr;
    if (describe(status, &text) != cupti::success || text == nullptr) text = "unknown error";
    core::fail(exit, fmt::format("CUPTI failed {} ({})", what, text));
  }
};

/// The records of the tracer that exists. CUPTI calls functions without an argument for their
/// owner, possibly from its own thread, so the owner must be found through a variable.
struct Collector {
  const Library& library;
  std::vector<cupti::Kernel> kernels;
};
std::mutex collector_mutex;
Collector* collector = nullptr;

extern "C" {

void lockstep_request_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(cupti::record_alignment, buffer_bytes));
  *bytes = *buffer != nullptr ? buffer_bytes : 0;
  *records = 0;  // as many as fit
}

void lockstep_complete_buffer(void*, std::uint32_t, std::uint8_t* buffer, std::size_t,
                              std::size_t valid) {
  const std::scoped_lock lock(collector_mutex);
  void* record = nullptr;
  while (collector != nullptr &&
         collector->library.next_record(buffer, valid, &record) == cupti::success) {
    if (*static_cast<cupti::Kind*>(record) == cupti::concurrent_kernel)
      collector->kernels.push_back(*static_cast<cupti::Kernel*>(record));
  }
  std::free(buffer);
}
}

/// Loads CUPTI. Its threads may run until the process ends, so it is never unloaded.
Library load(const std::vector<std::string>& names) {
  void* handle = nullptr;
  std::vector<std::string> failures;
  for (const std::string& name : names) {
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) break;
    failures.emplace_back(dlerror());
  }
  if (handle == nullptr)
    core::fail(core::ExitStatus::usage,
               fmt::format("CUPTI cannot be loaded ({}); add the folder of CUPTI in the CUDA "
                           "toolkit (extras/CUPTI/lib64) to LD_LIBRARY_PATH",
                           fmt::join(failures, "; ")));
  Library library;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr)
      core::fail(core::ExitStatus::usage,
                 fmt::format("the library of CUPTI has no function {}; use that of the CUDA "
                             "toolkit with which this program was built",
                             name));
  };
  find("cuptiActivityRegisterCallbacks", library.register_callbacks);
  find("cuptiActivityEnable", library.enable);
  find("cuptiActivityDisable", library.disable);
  find("cuptiActivityFlushAll", library.flush);
  find("cuptiActivityGetNextRecord", library.next_record);
  find("cuptiGetTimestamp", library.timestamp);
  find("cuptiGetResultString", library.describe);
  return library;
}

std::string demangled(const char* name) {
  if (name == nullptr) return "unknown";
  // The demangler would take any other name for that of a type: "f" for float.
  if (!std::string_view(name).starts_with("_Z")) return name;
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

class CuptiTracer final : public KernelTracer {
 public:
  CuptiTracer(const Library& library, const cudaOccDeviceProp& device)
      : library_(library), device_(device) {
    const auto check = [&](Status status, const char* what) {
      library_.check(status, what, core::ExitStatus::usage);
    };
    check(library_.register_callbacks(lockstep_request_buffer, lockstep_complete_buffer),
          "to start");
    // Kernels of a CUDA graph are recorded only if this is enabled when the graph is instantiated.
    check(library_.enable(cupti::concurrent_kernel), "to enable the recording of kernels");
    std::uint64_t now = 0;
    check(library_.timestamp(&now), "to read its clock");
    const auto host = std::chrono::steady_clock::now().time_since_epoch();
    offset_ = std::chrono::duration<double>(host).count() - 1e-9 * static_cast<double>(now);
    const std::scoped_lock lock(collector_mutex);
    core::check(collector == nullptr, "only one tracer of kernels exists at a time");
    collector = &collector_;
  }
  ~CuptiTracer() override {
    static_cast<void>(library_.disable(cupti::concurrent_kernel));
    static_cast<void>(library_.flush(1));
    const std::scoped_lock lock(collector_mutex);
    collector = nullptr;
  }

  void start() override {
    check(library_.enable(cupti::concurrent_kernel), "to enable the recording of kernels");
  }
  void stop() override {
    flush();
    check(library_.disable(cupti::concurrent_kernel), "to disable the recording of kernels");
  }

  std::vector<KernelRecord> take() override {
    flush();
    std::vector<cupti::Kernel> kernels;
    {
      const std::scoped_lock lock(collector_mutex);
      kernels.swap(collector_.kernels);
    }
    std::vector<KernelRecord> records;
    for (const cupti::Kernel& kernel : kernels) {
      if (kernel.start == 0 || kernel.end == 0) continue;  // CUPTI has no times of it
      const int threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
      records.push_back(
          {.name = demangled(kernel.name),
           .begin = offset_ + 1e-9 * static_cast<double>(kernel.start),
           .end = offset_ + 1e-9 * static_cast<double>(kernel.end),
           .stream = kernel.stream,
           .blocks = std::int64_t{kernel.grid[0]} * kernel.grid[1] * kernel.grid[2],
           .threads = threads,
           .registers = kernel.registers,
           .shared_memory = std::int64_t{kernel.static_shared} + kernel.dynamic_shared,
           .occupancy = occupancy(device_, {.threads = threads,
                                            .registers = kernel.registers,
                                            .static_shared = kernel.static_shared,
                                            .dynamic_shared = kernel.dynamic_shared})});
    }
    std::ranges::stable_sort(records, {}, &KernelRecord::begin);
    return records;
  }

 private:
  void check(Status status, const char* what) const {
    library_.check(status, what, core::ExitStatus::internal);
  }
  void flush() const {
    constexpr std::uint32_t forced = 1;  // also buffers that are not full
    check(library_.flush(forced), "to return its records");
  }

  Library library_;
  cudaOccDeviceProp device_;
  Collector collector_{library_, {}};
  double offset_ = 0;  ///< from CUPTI's clock to the steady clock, seconds
};

}  // namespace

std::vector<std::string> cupti_names(int runtime_version) {
  return {fmt::format("libcupti.so.{}", runtime_version / 1000), "libcupti.so"};
}

std::unique_ptr<KernelTracer> make_cupti_tracer(const std::vector<std::string>& libraries,
                                                const cudaOccDeviceProp& device) {
  return std::make_unique<CuptiTracer>(load(libraries), device);
}

}  // namespace lockstep::backend::cuda
