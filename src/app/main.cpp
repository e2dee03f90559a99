#include <exception>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
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
