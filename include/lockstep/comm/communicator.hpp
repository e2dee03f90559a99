// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::comm {

struct MpiRanks;
class MpiSession;

/// A message between two ranks that is sent or received repeatedly, always from or to the same
/// memory (persistent request of MPI). `start` and `wait` allocate no memory.
class RepeatedMessage {
 public:
  virtual ~RepeatedMessage() = default;
  RepeatedMessage() = default;
  RepeatedMessage(const RepeatedMessage&) = delete;
  RepeatedMessage& operator=(const RepeatedMessage&) = delete;

  /// Starts the transfer of the message; the previous transfer must be complete. The memory must
  /// not be written (sender) or accessed (receiver) until `wait` has returned.
  virtual void start() = 0;
  /// Blocks until the last started transfer is complete; returns immediately if there is none.
  /// Throws `Error` (internal) if the message does not have the size of the memory.
  virtual void wait() = 0;
};

/// A group of ranks. All ranks must call the functions marked "Collective." in the same order.
/// Values other than bytes are sent with the functions in `messages.hpp`.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  ///< rank among the ranks of this host
  virtual int local_size() const = 0;  ///< number of ranks on this host
  /// Returns the index of this rank's host. Hosts are numbered from 0 in the order of their lowest
  /// ranks. Two ranks are on the same host if they can share memory (MPI_COMM_TYPE_SHARED); host
  /// names are not compared, since several hosts may have the same name.
  virtual int host() const = 0;
  /// Returns the name and version of the communication library.
  virtual std::string library_version() const = 0;
  /// Returns the MPI communicators of these ranks, with which all-reduces are built; null for a
  /// single rank.
  virtual const MpiRanks* mpi_ranks() const = 0;

  virtual void barrier() = 0;  ///< Collective.
  /// Sum over the ranks in rank order, in place; the same bits in every call. Collective.
  virtual void sum(std::span<double> values) = 0;
  /// Sum over the ranks by MPI_Allreduce, in place. The MPI library selects the order of summation,
  /// which may differ between calls: not for results of a training. Collective.
  virtual void sum(std::span<float> values) = 0;
  virtual void maximum(std::span<double> values) = 0;  ///< element-wise maximum over the ranks, in
                                                       ///< place. Collective.
  /// Copies `data` of rank 0 to all ranks, which must pass the same size. Collective.
  virtual void broadcast(std::span<std::byte> data) = 0;
  /// Copies the `data` of all ranks, which must have the same size, to `all` of rank 0, in rank
  /// order; `all` of the other ranks is not used. Throws `Error` (internal) if `data` has 2 GiB or
  /// more. Collective.
  virtual void gather(std::span<const std::byte> data, std::span<std::byte> all) = 0;
  /// Returns the `message` of every rank, in rank order, on all ranks. Collective.
  virtual std::vector<std::string> all_gather(const std::string& message) = 0;

  /// Sends `data` to rank `destination`. May block until that rank calls `receive`. Messages
  /// between two ranks arrive in the order in which they were sent.
  virtual void send(std::span<const std::byte> data, int destination) = 0;
  /// Blocks until the next message of rank `source` is in `data`. Throws `Error` (internal) if the
  /// message does not have the size of `data`.
  virtual void receive(std::span<std::byte> data, int source) = 0;

  /// Create messages to rank `destination` and from rank `source`, which must have the same size.
  /// They arrive in the order in which they are started, in the same order as those of `send`. They
  /// must be complete before they are destroyed, and be destroyed before this communicator. Throw
  /// `Error` (internal) if the data has 2 GiB or more.
  virtual std::unique_ptr<RepeatedMessage> make_send(std::span<const std::byte> data,
                                                     int destination) = 0;
  virtual std::unique_ptr<RepeatedMessage> make_receive(std::span<std::byte> data, int source) = 0;

  /// Divides the ranks into process groups. Returns the communicator of the ranks that pass the
  /// same `colour`, ordered by `key` and then by their rank in this communicator; null if `colour`
  /// is negative. The group does not depend on this communicator. Collective.
  virtual std::unique_ptr<Communicator> split(int colour, int key) = 0;

  /// Terminates all ranks immediately with exit status `status`; for a rank that fails while other
  /// ranks wait.
  [[noreturn]] virtual void abort(int status) noexcept = 0;
};

/// Returns a description of this rank: "rank 1 of 4 on node7".
std::string describe_rank(const Communicator& communicator);

/// Creates a communicator over all ranks of MPI; for one rank, a communicator that sends no
/// messages. Collective.
std::unique_ptr<Communicator> make_communicator(const MpiSession& session);

/// Terminates all processes of the program with exit status `status`.
using TerminateAll = void (*)(int status);

/// Creates a communicator of one rank that does not use MPI. `library_version`: the name and
/// version of the communication library that it reports. `terminate` is called by `abort`; null if
/// there are no other processes.
std::unique_ptr<Communicator> make_self_communicator(std::string library_version = "none",
                                                     TerminateAll terminate = nullptr);

}  // namespace lockstep::comm
