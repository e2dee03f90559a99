// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/communicator.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/handle.hpp"
#include "lockstep/core/process/system.hpp"
#include "mpi_check.hpp"
#include "mpi_library.hpp"

namespace lockstep::comm {

namespace {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(std::string library_version, TerminateAll terminate)
      : library_version_(std::move(library_version)), terminate_(terminate) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  int host() const override { return 0; }
  std::string library_version() const override { return library_version_; }
  const MpiRanks* mpi_ranks() const override { return nullptr; }

  void barrier() override {}
  void sum(std::span<double>) override {}
  void sum(std::span<float>) override {}
  void maximum(std::span<double>) override {}
  void broadcast(std::span<std::byte>) override {}
  void gather(std::span<const std::byte> data, std::span<std::byte> all) override {
    std::ranges::copy(data, all.begin());
  }
  void send(std::span<const std::byte>, int) override { refuse_message(); }
  void receive(std::span<std::byte>, int) override { refuse_message(); }
  std::unique_ptr<RepeatedMessage> make_send(std::span<const std::byte>, int) override {
    refuse_message();
  }
  std::unique_ptr<RepeatedMessage> make_receive(std::span<std::byte>, int) override {
    refuse_message();
  }
  std::unique_ptr<Communicator> split(int colour, int) override {
    return colour < 0 ? nullptr : make_self_communicator(library_version_, terminate_);
  }
  std::vector<std::string> all_gather(const std::string& message) override { return {message}; }
  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    if (terminate_ != nullptr) terminate_(status);
    std::_Exit(status);
  }

 private:
  [[noreturn]] static void refuse_message() {
    core::fail(core::ExitStatus::internal, "a message to or from another rank of a single rank");
  }

  std::string library_version_;
  TerminateAll terminate_;  ///< may be null
};

std::string mpi_library_version() { return name_and_version(loaded_mpi_library().description); }

/// Calls `action` for consecutive parts of `values` whose lengths fit in the int counts of MPI.
template <class T, class Action>
void in_countable_parts(std::span<T> values, Action action) {
  constexpr std::size_t most = std::size_t{1} << 30;
  for (std::size_t at = 0; at < values.size(); at += most) {
    const auto part = values.subspan(at, std::min(most, values.size() - at));
    action(part.data(), static_cast<int>(part.size()));
  }
}

/// Adds the arrays of all ranks, which `gathered` contains in rank order.
void add_in_rank_order(std::span<const double> gathered, std::span<double> sums) {
  std::ranges::copy(gathered.first(sums.size()), sums.begin());
  for (std::size_t at = sums.size(); at < gathered.size(); at += sums.size())
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gathered[at + i];
}

constexpr int message_tag = 0;

/// Returns the number of bytes of a message. Throws `Error` (internal) if MPI cannot count them.
int count_of(std::span<const std::byte> data) {
  core::check(data.size() <= INT_MAX, "a message between ranks has less than 2 GiB");
  return static_cast<int>(data.size());
}

/// Blocks until `request` is complete; returns its status. If ranks share a core, the rank that
/// this one waits for must be able to run.
MPI_Status finish(MPI_Request& request) {
  MPI_Status status;
  for (int is_complete = 0; is_complete == 0;) {
    check_mpi(MPI_Test(&request, &is_complete, &status), "MPI_Test");
    if (is_complete == 0) sched_yield();
  }
  return status;
}

/// Throws `Error` (internal) if the received message does not have `bytes` bytes. MPI itself
/// reports a message that is longer than its buffer.
void check_size(const MPI_Status& status, std::size_t bytes) {
  int received = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (static_cast<std::size_t>(received) == bytes) return;
  core::fail(core::ExitStatus::internal,
             fmt::format("the message of rank {} has {} bytes instead of {}", status.MPI_SOURCE,
                         received, bytes));
}

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

class PersistentRequest final : public RepeatedMessage {
 public:
  /// `received_bytes`: size of the message; nothing if the request sends it.
  explicit PersistentRequest(MPI_Request request, std::optional<std::size_t> received_bytes = {})
      : request_(request), received_bytes_(received_bytes) {}

  void start() override {
    MPI_Request request = request_.get();
    check_mpi(MPI_Start(&request), "MPI_Start");
  }
  void wait() override {
    MPI_Request request = request_.get();
    const MPI_Status status = finish(request);
    const bool was_started = status.MPI_SOURCE != MPI_ANY_SOURCE;
    if (received_bytes_ && was_started) check_size(status, *received_bytes_);
  }

 private:
  core::Handle<RequestTraits> request_;
  std::optional<std::size_t> received_bytes_;
};

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
    constexpr std::size_t most = 4096;  // values of one message, which limits `gathered_`
    for (std::size_t at = 0; at < values.size(); at += most) {
      const auto part = values.subspan(at, std::min(most, values.size() - at));
      const int count = static_cast<int>(part.size());
      gathered_.resize(part.size() * static_cast<std::size_t>(size_));
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Iallgather(part.data(), count, MPI_DOUBLE, gathered_.data(), count, MPI_DOUBLE,
                               collectives_.get(), &request),
                "MPI_Iallgather");
      finish(request);
      add_in_rank_order(gathered_, part);
    }
  }
  void sum(std::span<float> values) override { reduce(values, MPI_FLOAT, MPI_SUM); }
  void maximum(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_MAX); }

  void broadcast(std::span<std::byte> data) override {
    in_countable_parts(data, [&](std::byte* part, int count) {
      check_mpi(MPI_Bcast(part, count, MPI_BYTE, 0, collectives_.get()), "MPI_Bcast");
    });
  }

  void gather(std::span<const std::byte> data, std::span<std::byte> all) override {
    const int count = count_of(data);
    check_mpi(MPI_Gather(data.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, 0,
                         collectives_.get()),
              "MPI_Gather");
  }
  void send(std::span<const std::byte> data, int destination) override {
    in_countable_parts(data, [&](const std::byte* part, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(
          MPI_Isend(part, count, MPI_BYTE, destination, message_tag, collectives_.get(), &request),
          "MPI_Isend");
      finish(request);
    });
  }
  void receive(std::span<std::byte> data, int source) override {
    in_countable_parts(data, [&](std::byte* part, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Irecv(part, count, MPI_BYTE, source, message_tag, collectives_.get(), &request),
                "MPI_Irecv");
      check_size(finish(request), static_cast<std::size_t>(count));
    });
  }
  std::unique_ptr<RepeatedMessage> make_send(std::span<const std::byte> data,
                                             int destination) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Send_init(data.data(), count_of(data), MPI_BYTE, destination, message_tag,
                            collectives_.get(), &request),
              "MPI_Send_init");
    return std::make_unique<PersistentRequest>(request);
  }
  std::unique_ptr<RepeatedMessage> make_receive(std::span<std::byte> data, int source) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Recv_init(data.data(), count_of(data), MPI_BYTE, source, message_tag,
                            collectives_.get(), &request),
              "MPI_Recv_init");
    return std::make_unique<PersistentRequest>(request, data.size());
  }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    const MpiComm group = comm::split(collectives_.get(), colour < 0 ? MPI_UNDEFINED : colour, key);
    return group ? make_communicator_of(group.get(), abort_all) : nullptr;
  }
  std::vector<std::string> all_gather(const std::string& message) override {
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

  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    abort_all(status);
    std::_Exit(status);
  }

 private:
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
  std::vector<double> gathered_;  ///< the terms of a sum of doubles
};

std::unique_ptr<Communicator> make_communicator_of(MPI_Comm comm, TerminateAll terminate) {
  if (size_of(comm) == 1) return make_self_communicator(mpi_library_version(), terminate);
  return std::make_unique<MpiCommunicator>(comm);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const MpiSession&) {
  return make_communicator_of(MPI_COMM_WORLD, nullptr);
}

std::unique_ptr<Communicator> make_self_communicator(std::string library_version,
                                                     TerminateAll terminate) {
  return std::make_unique<SelfCommunicator>(std::move(library_version), terminate);
}

std::string describe_rank(const Communicator& communicator) {
  return fmt::format("rank {} of {} on {}", communicator.rank(), communicator.size(),
                     core::host_name());
}

}  // namespace lockstep::comm
