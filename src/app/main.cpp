#include <malloc.h>

#include <exception>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
  // What is freed goes back to the system at once, so that the peak of memory is what was foretold:
  // by default glibc keeps ever larger blocks once one was freed.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    if (app::print_information(argc, argv)) return 0;
    const comm::MpiSession session(argc, argv);
    const auto communicator = comm::make_communicator(session);
    return app::run_program(argc, argv, *communicator);
  } catch (const core::Error& error) {  // before there was a communicator
    core::log_line(error.what());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    core::log_line(error.what());
    return static_cast<int>(core::ExitStatus::internal);
  }
}
