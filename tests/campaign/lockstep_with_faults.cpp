// SPDX-License-Identifier: BSD-3-Clause
// The program with the further option --inject=KIND:RANK:STEP[:PHASE],...: causes faults in one
// rank, to test how a run ends (docs/reliability.md). A fault of a rank that does not exist has no
// effect.

#include <mpi.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "app/process.hpp"
#include "fault_injection.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/error.hpp"
#include "train/delegating_backend.hpp"

namespace lockstep::campaign {
namespace {

constexpr std::string_view option = "--inject=";

std::optional<FaultInjector> injector;  // accessed by MPI_Iallgather

/// Tells the injector the state of the training plan.
class ObservedBackend final : public train::testing::DelegatingBackend {
 public:
  using DelegatingBackend::DelegatingBackend;
  std::unique_ptr<backend::Plan> compile(const graph::Graph& graph, backend::ModelState& state,
                                         const backend::PlanOptions& options) const override {
    if (options.mode == backend::Mode::training) injector->set_state(inner(), state);
    return inner().compile(graph, state, options);
  }
};

int run(int argc, char** argv) {
  std::vector<char*> arguments;
  std::vector<Fault> faults;
  for (char* argument : std::span(argv, static_cast<std::size_t>(argc))) {
    const std::string_view text = argument;
    if (!text.starts_with(option)) {
      arguments.push_back(argument);
      continue;
    }
    for (Fault& fault : parse_faults(text.substr(option.size())))
      faults.push_back(std::move(fault));
  }
  injector.emplace(faults, comm::rank_before_mpi().value_or(0));
  const app::ProcessParts parts{
      .monitor = [](core::ProgressMonitor& watchdog) -> core::ProgressMonitor& {
        injector->set_monitor(watchdog);
        return *injector;
      },
      .make_backend =
          [](const backend::DeviceOptions& options) {
            return std::make_unique<ObservedBackend>(backend::make_backend(options));
          }};
  const auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);  // the end, as of `argv`
  return app::run_process(count, arguments.data(), parts);
}

}  // namespace
}  // namespace lockstep::campaign

/// Replaces the function of the MPI library, which PMPI_Iallgather calls: the one by which ranks
/// combine the results of a step.
extern "C" int MPI_Iallgather(const void* values, int count, MPI_Datatype type, void* all,
                              int count_of_each, MPI_Datatype type_of_each, MPI_Comm communicator,
                              MPI_Request* request) {
  if (lockstep::campaign::injector->takes_skip()) {
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  return PMPI_Iallgather(values, count, type, all, count_of_each, type_of_each, communicator,
                         request);
}

int main(int argc, char** argv) {
  try {
    return lockstep::campaign::run(argc, argv);
  } catch (const lockstep::core::Error& error) {
    lockstep::core::log_line(error.what());
    return static_cast<int>(error.status());
  }
}
