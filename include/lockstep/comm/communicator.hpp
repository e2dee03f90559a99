#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// How an array is summed over the ranks.
enum class AllReduceWay {
  automatic,  ///< the fastest of those below that can be had, by measurement
  shared,     ///< ranks of one host, each sums its part of all in memory that all of them see
  two_level,  ///< `shared` within hosts that have equally many ranks, `pieces` between them
  pieces,     ///< messages: each rank collects its part of all and sends the sum back
  ring,       ///< messages to the next rank only; float32
  mpi,        ///< MPI_Iallreduce; float32
};
std::string_view name(AllReduceWay way);

/// The data type in which the algorithm communicates gradients if `wanted` is asked for: `shared`
/// reads the ranks' float32 memory, `ring` and `mpi` send float32, `pieces` and `two_level` send
/// `wanted`.
core::DataType communication_type(AllReduceWay way, core::DataType wanted);

/// A sum over the ranks of one fixed array, prepared once and run once per step. After completion
/// every rank holds the same bits. `shared` and `pieces` sum each element on one rank, in float32,
/// in the order of the ranks, so that the result does not depend on how the array is cut;
/// `two_level` sums within hosts first; `ring` and `mpi` sum in orders of their own. On a bfloat16
/// wire the contributions and the sum are rounded for travel in messages; what is summed within a
/// host, or on one rank alone, is not.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// Starts the sum of the array's present values, which nobody may touch until `progress` returned
  /// true. Returns at once. All ranks start their sums in the same order.
  virtual void start() = 0;

  /// Moves messages; true once the array holds the sum. Never waits, allocates nothing.
  virtual bool progress() = 0;

  /// Progresses until the array holds the sum; the core is offered to others between.
  void finish();
};

/// The most bytes of memory an `AllReduce` of `elements` values takes on each of `ranks` ranks.
std::size_t all_reduce_scratch_bytes(std::size_t elements, int ranks, core::DataType wire);

/// Throws `Error` (usage) where gradients cannot travel as `wire`.
void check_wire(core::DataType wire);

/// A group of ranks. Every function marked "Collective." must be reached by all ranks in the same
/// order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  ///< among the ranks of this host
  virtual int local_size() const = 0;
  /// Index of this rank's host: hosts count from 0 in the order of their lowest ranks. Hosts are
  /// told apart by which ranks can share memory (MPI_COMM_TYPE_SHARED), since several hosts may
  /// have the same name.
  virtual int host() const = 0;
  virtual std::string library_version() const = 0;
  /// Warnings so far about communication that takes longer than it could; equal on all ranks.
  virtual std::vector<std::string> warnings() const { return {}; }

  virtual void barrier() = 0;                          ///< Collective.
  virtual void sum(std::span<double> values) = 0;      ///< In place. Collective.
  virtual void sum(std::span<float> values) = 0;       ///< In place. Collective.
  virtual void maximum(std::span<double> values) = 0;  ///< In place. Collective.
  virtual void broadcast(std::span<std::byte> data,
                         int root) = 0;  ///< Same size everywhere. Collective.
  /// What every rank said, in rank order, on every rank. Collective.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;
  /// Every rank's values (the same count on each) in rank order on rank 0, nothing elsewhere.
  /// Collective.
  virtual std::vector<double> gather(std::span<const double> values) = 0;

  /// A small sum that runs beside other work: `start_sum`, later `finish_sum`, one at a time.
  /// Collective.
  virtual void start_sum(std::span<double> values) = 0;
  virtual void finish_sum() = 0;

  /// Zeroed memory for an array of this rank that is going to be summed: where the ranks of a host
  /// can share memory, it is shared. Collective.
  virtual core::Buffer allocate(std::size_t bytes) = 0;

  /// The ways in which `values` can be summed; none for one rank alone. Collective.
  virtual std::vector<AllReduceWay> ways(std::span<const float> values, core::DataType wire) = 0;

  /// Prepares sums of `values`, which travel as `wire` (float32 or bfloat16). All memory is taken
  /// here. `way` is one of `ways(values, wire)`. Collective.
  virtual std::unique_ptr<AllReduce> make_all_reduce(std::span<float> values, core::DataType wire,
                                                     AllReduceWay way) = 0;

  /// Ends all ranks at once with `status`; for a rank that fails while others wait.
  [[noreturn]] virtual void abort(int status) noexcept = 0;
};

/// MPI from start to end. Must be made before and destroyed after every communicator.
/// A session made where MPI runs already joins it and leaves its end to others. Where an error
/// unwinds past the session, MPI is not ended (that would wait for the other ranks): the launcher
/// ends them.
class MpiSession {
 public:
  /// Throws `Error` (usage) where a launcher's environment promises more ranks than MPI sees
  /// (`srun` without PMI starts N singletons).
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owns_mpi_ = false;
};

/// The seam between ways to communicate: all ranks of MPI, or, where there is one, a communicator
/// that sends nothing. Collective.
std::unique_ptr<Communicator> make_communicator(const MpiSession& session);

/// One rank without MPI, for tests and tools.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace lockstep::comm
