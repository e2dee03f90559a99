// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_check.hpp"

#include <fmt/format.h>

#include <array>
#include <exception>

#include "lockstep/core/error.hpp"

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

void MpiCommTraits::close(type comm) noexcept {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  // MPI_Comm_free is collective: a rank that leaves because of an error must not wait for the
  // others.
  if (is_finalized != 0 || std::uncaught_exceptions() > 0) return;
  if (MPI_Comm_free(&comm) != MPI_SUCCESS) core::log_warning("MPI_Comm_free failed");
}

namespace {

MpiComm with_error_codes(MPI_Comm comm) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return MpiComm(comm);
}

}  // namespace

MpiComm duplicate(MPI_Comm comm, const char* name) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_name(copy, name), "MPI_Comm_set_name");
  return with_error_codes(copy);
}

MpiComm split(MPI_Comm comm, int colour, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, colour, key, &part), "MPI_Comm_split");
  return part == MPI_COMM_NULL ? MpiComm() : with_error_codes(part);
}

MpiComm split_by_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank_in(comm), MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  return with_error_codes(host);
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

Requests::~Requests() {
  // Requests are still active if an all-reduce was abandoned: this rank leaves because of an error.
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

}  // namespace lockstep::comm
