#include "mpi_check.hpp"

#include <fmt/format.h>

#include <array>
#include <exception>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::comm {

void check_mpi(int status, std::string_view call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> reason{};
  int length = 0;
  MPI_Error_string(status, reason.data(), &length);
  core::fail(core::ExitStatus::internal,
             fmt::format("{} failed ({}); look for a rank or a host that failed first", call,
                         std::string_view(reason.data(), static_cast<std::size_t>(length))));
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string version(text.data(), static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

void MpiCommTraits::close(type comm) noexcept {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  // MPI_Comm_free is collective: a rank that leaves because of an error must not wait for the
  // others.
  if (is_finalized != 0 || std::uncaught_exceptions() > 0) return;
  if (MPI_Comm_free(&comm) != MPI_SUCCESS) core::log_warning("MPI_Comm_free failed");
}

}  // namespace lockstep::comm
