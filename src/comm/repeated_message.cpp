// SPDX-License-Identifier: BSD-3-Clause
#include "repeated_message.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/handle.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

namespace {

struct RequestTraits {
  using type = MPI_Request;
  static type null() noexcept { return MPI_REQUEST_NULL; }
  /// MPI may have been finalised if an exception propagates.
  static void close(type request) noexcept {
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    if (is_finalised == 0) MPI_Request_free(&request);
  }
};

enum class Direction { send, receive };

}  // namespace

struct RepeatedMessage::Request {
  core::Handle<RequestTraits> request;
  Direction direction;
  std::size_t bytes;
};

RepeatedMessage::RepeatedMessage(std::unique_ptr<Request> request) : request_(std::move(request)) {}

RepeatedMessage::~RepeatedMessage() = default;

void RepeatedMessage::start() {
  MPI_Request request = request_->request.get();
  check_mpi(MPI_Start(&request), "MPI_Start");
}

void RepeatedMessage::wait() {
  // If ranks share a core, the rank that this one waits for must be able to run.
  MPI_Request request = request_->request.get();
  MPI_Status status;
  for (int is_complete = 0; is_complete == 0;) {
    check_mpi(MPI_Test(&request, &is_complete, &status), "MPI_Test");
    if (is_complete == 0) sched_yield();
  }
  if (request_->direction == Direction::send || status.MPI_SOURCE == MPI_ANY_SOURCE) return;
  int received = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (static_cast<std::size_t>(received) == request_->bytes) return;
  core::fail(core::ExitStatus::internal,
             fmt::format("the message of rank {} has {} bytes instead of {}", status.MPI_SOURCE,
                         received, request_->bytes));
}

namespace {

std::unique_ptr<RepeatedMessage> repeated(MPI_Request request, Direction direction,
                                          std::size_t bytes) {
  return std::make_unique<RepeatedMessage>(std::make_unique<RepeatedMessage::Request>(
      core::Handle<RequestTraits>(request), direction, bytes));
}

}  // namespace

std::unique_ptr<RepeatedMessage> make_persistent_send(MPI_Comm comm,
                                                      std::span<const std::byte> data,
                                                      int destination, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Send_init(data.data(), static_cast<int>(data.size()), MPI_BYTE, destination, tag,
                          comm, &request),
            "MPI_Send_init");
  return repeated(request, Direction::send, data.size());
}

std::unique_ptr<RepeatedMessage> make_persistent_receive(MPI_Comm comm, std::span<std::byte> data,
                                                         int source, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Recv_init(data.data(), static_cast<int>(data.size()), MPI_BYTE, source, tag, comm,
                          &request),
            "MPI_Recv_init");
  return repeated(request, Direction::receive, data.size());
}

}  // namespace lockstep::comm
