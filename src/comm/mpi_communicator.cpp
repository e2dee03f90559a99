// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <set>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"
#include "repeated_message.hpp"

namespace lockstep::comm {

namespace {

/// Calls `action` for consecutive parts of `values` whose lengths fit in the int counts of MPI.
template <class T, class Action>
void in_countable_parts(std::span<T> values, Action action) {
  constexpr std::size_t most = std::size_t{1} << 30;
  for (std::size_t at = 0; at < values.size(); at += most) {
    const auto part = values.subspan(at, std::min(most, values.size() - at));
    action(part.data(), static_cast<int>(part.size()));
  }
}

constexpr int message_tag = 0;

/// Blocks until `request` is complete. If ranks share a core, the rank that this one waits for must
/// be able to run.
void finish(MPI_Request& request) {
  int is_complete = 0;
  while (true) {
    check_mpi(MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_complete != 0) return;
    sched_yield();
  }
}

/// Returns the index of this rank's host among all hosts, in the order of their lowest ranks.
/// Collective.
int index_of_host(const MpiRanks& ranks) {
  int lowest = rank_in(ranks.all);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, ranks.host), "MPI_Allreduce");
  std::vector<int> lowest_ranks(static_cast<std::size_t>(size_of(ranks.all)));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, lowest_ranks.data(), 1, MPI_INT, ranks.all),
            "MPI_Allgather");
  const std::set<int> hosts(lowest_ranks.begin(), lowest_ranks.end());
  return static_cast<int>(std::distance(hosts.begin(), hosts.find(lowest)));
}

/// Creates the communicator of the ranks of `comm`. Collective over `comm`.
std::unique_ptr<Communicator> make_communicator_of(MPI_Comm comm, TerminateAll terminate);

void abort_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

class MpiCommunicator final : public Communicator {
 public:
  /// Creates a communicator of the ranks of `comm`. Collective over `comm`.
  explicit MpiCommunicator(MPI_Comm comm)
      : collectives_(duplicate(comm, "lockstep")),
        host_(split_by_host(comm)),
        ranks_{collectives_.get(), host_.get()},
        rank_(rank_in(collectives_.get())),
        size_(size_of(collectives_.get())),
        local_rank_(rank_in(host_.get())),
        local_size_(size_of(host_.get())),
        host_index_(index_of_host(ranks_)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  int host() const override { return host_index_; }
  std::string library_version() const override { return mpi_library_version(); }
  const MpiRanks* mpi_ranks() const override { return &ranks_; }

  void barrier() override { check_mpi(MPI_Barrier(collectives_.get()), "MPI_Barrier"); }

  /// Yields the core while it waits, because the ranks call this after every step.
  void sum(std::span<double> values) override {
    in_countable_parts(values, [&](double* part, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, part, count, MPI_DOUBLE, MPI_SUM, collectives_.get(),
                               &request),
                "MPI_Iallreduce");
      finish(request);
    });
  }
  void sum(std::span<float> values) override { reduce(values, MPI_FLOAT, MPI_SUM); }
  void maximum(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_MAX); }

  void broadcast(std::span<std::byte> data, int root) override {
    check_rooted("broadcast", root, data.size(), Fits::yes);
    in_countable_parts(data, [&](std::byte* part, int count) {
      check_mpi(MPI_Bcast(part, count, MPI_BYTE, root, collectives_.get()), "MPI_Bcast");
    });
  }

  void gather(std::span<const std::byte> data, std::span<std::byte> all) override {
    constexpr int root = 0;
    check_rooted("gather", root, data.size(), fits(data.size(), all.size()));
    const int count = static_cast<int>(data.size());
    check_mpi(MPI_Gather(data.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, root,
                         collectives_.get()),
              "MPI_Gather");
  }
  void send(std::span<const std::byte> data, int destination) override;
  void receive(std::span<std::byte> data, int source) override;
  std::unique_ptr<RepeatedMessage> make_send(std::span<const std::byte> data,
                                             int destination) override {
    check_message("send", destination, data.size());
    return make_persistent_send(collectives_.get(), data, destination, message_tag);
  }
  std::unique_ptr<RepeatedMessage> make_receive(std::span<std::byte> data, int source) override {
    check_message("receive", source, data.size());
    return make_persistent_receive(collectives_.get(), data, source, message_tag);
  }
  std::unique_ptr<Communicator> split(int colour, int key) override;

  std::vector<std::string> all_gather(const std::string& message) override;

  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    abort_all(status);
    std::_Exit(status);
  }

 private:
  /// Whether the array of rank 0 has room for the data of all ranks.
  enum class Fits { no, yes };
  Fits fits(std::size_t bytes, std::size_t all_bytes) const {
    const bool has_room = all_bytes == bytes * static_cast<std::size_t>(size_);
    return rank_ != 0 || (has_room && bytes <= INT_MAX) ? Fits::yes : Fits::no;
  }
  /// Throws `AgreedError` (internal) unless all ranks pass the same valid root and the same size,
  /// and the array of the root has room. Collective.
  void check_rooted(const char* operation, int root, std::size_t bytes, Fits room);
  /// Throws `Error` (internal) if `peer` is not another rank or MPI cannot count `bytes`.
  void check_message(const char* operation, int peer, std::size_t bytes) const;

  template <class T>
  void reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation) {
    in_countable_parts(values, [&](T* part, int count) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, part, count, type, operation, collectives_.get()),
                "MPI_Allreduce");
    });
  }

  MpiComm collectives_;
  MpiComm host_;
  MpiRanks ranks_;
  int rank_;
  int size_;
  int local_rank_;
  int local_size_;
  int host_index_;
};

void MpiCommunicator::check_rooted(const char* operation, int root, std::size_t bytes, Fits room) {
  const auto size = static_cast<std::int64_t>(bytes);
  std::array<std::int64_t, 5> most = {root, -root, size, -size, room == Fits::yes ? 0 : 1};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_INT64_T,
                          MPI_MAX, collectives_.get()),
            "MPI_Allreduce");
  std::string mistake;
  if (most[0] != -most[1]) {
    mistake = fmt::format("ranks pass different roots, {} to {}", -most[1], most[0]);
  } else if (root < 0 || root >= size_) {
    mistake = fmt::format("root {} is not one of {} ranks", root, size_);
  } else if (most[2] != -most[3]) {
    mistake = fmt::format("ranks pass different sizes, {} to {} bytes", -most[3], most[2]);
  } else if (most[4] != 0) {
    mistake = fmt::format(
        "the array of the root has not {} times the size of each part, {} bytes (less than 2 GiB)",
        size_, bytes);
  }
  if (mistake.empty()) return;
  fail_together(*this, core::ExitStatus::internal, fmt::format("{}: {}", operation, mistake));
}

void MpiCommunicator::check_message(const char* operation, int peer, std::size_t bytes) const {
  if (peer < 0 || peer >= size_ || peer == rank_) {
    core::fail(core::ExitStatus::internal,
               fmt::format("{} on rank {}: rank {} is not another of {} ranks", operation, rank_,
                           peer, size_));
  }
  if (bytes > INT_MAX) {
    core::fail(core::ExitStatus::internal,
               fmt::format("{} on rank {}: a message of {} bytes is not less than 2 GiB", operation,
                           rank_, bytes));
  }
}

void MpiCommunicator::send(std::span<const std::byte> data, int destination) {
  check_message("send", destination, data.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, destination,
                      message_tag, collectives_.get(), &request),
            "MPI_Isend");
  finish(request);
}

void MpiCommunicator::receive(std::span<std::byte> data, int source) {
  check_message("receive", source, data.size());
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  for (int has_arrived = 0; has_arrived == 0;) {
    check_mpi(MPI_Improbe(source, message_tag, collectives_.get(), &has_arrived, &message, &status),
              "MPI_Improbe");
    if (has_arrived == 0) sched_yield();
  }
  int bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  const bool is_expected = static_cast<std::size_t>(bytes) == data.size();
  std::vector<std::byte> discarded(is_expected ? 0 : static_cast<std::size_t>(bytes));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Imrecv(is_expected ? data.data() : discarded.data(), bytes, MPI_BYTE, &message, &request),
      "MPI_Imrecv");
  finish(request);
  if (is_expected) return;
  core::fail(core::ExitStatus::internal,
             fmt::format("receive on rank {}: the message of rank {} has {} bytes instead of {}",
                         rank_, source, bytes, data.size()));
}

std::unique_ptr<Communicator> MpiCommunicator::split(int colour, int key) {
  const MpiComm group = comm::split(collectives_.get(), colour < 0 ? MPI_UNDEFINED : colour, key);
  return group ? make_communicator_of(group.get(), abort_all) : nullptr;
}

std::vector<std::string> MpiCommunicator::all_gather(const std::string& message) {
  const auto ranks = static_cast<std::size_t>(size_);
  const int length = static_cast<int>(message.size());
  std::vector<int> lengths(ranks);
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, collectives_.get()),
            "MPI_Allgather");
  std::vector<int> offsets(ranks + 1, 0);
  for (std::size_t r = 0; r < ranks; ++r) offsets[r + 1] = offsets[r] + lengths[r];
  std::string all(static_cast<std::size_t>(offsets[ranks]), '\0');
  check_mpi(MPI_Allgatherv(message.data(), length, MPI_CHAR, all.data(), lengths.data(),
                           offsets.data(), MPI_CHAR, collectives_.get()),
            "MPI_Allgatherv");
  std::vector<std::string> messages;
  for (std::size_t r = 0; r < ranks; ++r) {
    messages.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  }
  return messages;
}

std::unique_ptr<Communicator> make_communicator_of(MPI_Comm comm, TerminateAll terminate) {
  if (size_of(comm) == 1) return make_self_communicator(mpi_library_version(), terminate);
  return std::make_unique<MpiCommunicator>(comm);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const MpiSession&) {
  return make_communicator_of(MPI_COMM_WORLD, nullptr);
}

}  // namespace lockstep::comm
