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

/// All-reduce algorithms for arrays in host memory.
enum class AllReduceWay {
  automatic,  ///< the fastest available algorithm, selected by timing
  shared,     ///< all ranks on one host: each sums one part of the array in shared memory
  two_level,  ///< hierarchical: `shared` within hosts, `pieces` between them; needs the same number
              ///< of ranks, at least 2, on each host
  pieces,  ///< direct (pairwise exchange): each rank receives the contributions to its part of the
           ///< array, sums them and sends the result to all
  ring,    ///< ring: messages to the next rank only; float32
  mpi,     ///< MPI_Iallreduce of the MPI library; float32
};
/// Returns the name of the algorithm on the command line: "auto", "shared", "two-level", ...
std::string_view name(AllReduceWay way);

/// Returns the data type in which the algorithm `way` communicates gradients if `wanted` is
/// requested: `pieces` and `two_level` send `wanted`, `shared` reads the float32 memory of the
/// ranks, and `ring` and `mpi` send float32.
core::DataType communication_type(AllReduceWay way, core::DataType wanted);

/// A persistent all-reduce: the in-place sum over the ranks of one fixed array, prepared once and
/// run once per step. After completion every rank holds the same bits. `shared` and `pieces` sum
/// each element on one rank, in float32 and in rank order, so that the result does not depend on
/// how the array is partitioned. `two_level` sums within hosts first; `ring` and `mpi` use other
/// orders of summation.
///
/// If the communication data type is bfloat16, `pieces` and the communication between hosts of
/// `two_level` round the contributions and the sum to bfloat16. `shared`, the sum within a host of
/// `two_level`, and a communicator of one rank do not round.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// Starts the all-reduce of the array's current values and returns immediately. The array must
  /// not be accessed until `progress` has returned true. All ranks must start their all-reduces in
  /// the same order.
  virtual void start() = 0;

  /// Advances the communication without blocking and without allocating memory. Returns true once
  /// the array holds the sum.
  virtual bool progress() = 0;

  /// Blocks until the array holds the sum. Yields the CPU core between calls of `progress`.
  void finish();
};

/// Returns an upper bound of the workspace, in bytes on each of `ranks` ranks, of an `AllReduce` of
/// `elements` values with the communication data type `wire`.
std::size_t all_reduce_scratch_bytes(std::size_t elements, int ranks, core::DataType wire);

/// Throws `Error` (usage) if `wire` is not supported as communication data type; float32 and
/// bfloat16 are.
void check_wire(core::DataType wire);

/// A group of ranks. All ranks must call the functions marked "Collective." in the same order.
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
  /// Returns the warnings so far about communication that is slower than it could be; the same on
  /// all ranks.
  virtual std::vector<std::string> warnings() const { return {}; }

  virtual void barrier() = 0;                      ///< Collective.
  virtual void sum(std::span<double> values) = 0;  ///< sum over the ranks, in place. Collective.
  virtual void sum(std::span<float> values) = 0;   ///< sum over the ranks, in place. Collective.
  virtual void maximum(std::span<double> values) = 0;  ///< element-wise maximum over the ranks, in
                                                       ///< place. Collective.
  /// Copies `data` of rank `root` to all ranks. `data` must have the same size on all ranks.
  /// Collective.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Returns the `text` of every rank, in rank order, on all ranks. Collective.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;
  /// Returns the values of all ranks in rank order on rank 0, and an empty vector on the other
  /// ranks. All ranks must pass the same number of values. Collective.
  virtual std::vector<double> gather(std::span<const double> values) = 0;

  /// Non-blocking in-place sum of a small array over the ranks, which can overlap with other work:
  /// `start_sum` starts it, `finish_sum` blocks until `values` holds the sum. Only one may be in
  /// progress at a time. Collective.
  virtual void start_sum(std::span<double> values) = 0;
  virtual void finish_sum() = 0;

  /// Returns zeroed memory for an array of this rank that will be all-reduced. The memory is shared
  /// by the ranks of a host if every host has the same number of ranks, at least 2, and they can
  /// share memory; otherwise it is private. Collective.
  virtual core::Buffer allocate(std::size_t bytes) = 0;

  /// Returns the algorithms that can sum `values` with the communication data type `wire`; none for
  /// a communicator of one rank. Collective.
  virtual std::vector<AllReduceWay> ways(std::span<const float> values, core::DataType wire) = 0;

  /// Prepares the all-reduce of `values` with the algorithm `way`, which must be one of
  /// `ways(values, wire)`, and the communication data type `wire` (float32 or bfloat16). Allocates
  /// all memory that the all-reduce needs. Throws `AgreedError` if the message tags of the MPI
  /// library are exhausted (usage) or no shared memory is left (out_of_memory). Collective.
  virtual std::unique_ptr<AllReduce> make_all_reduce(std::span<float> values, core::DataType wire,
                                                     AllReduceWay way) = 0;

  /// Terminates all ranks immediately with exit status `status`; for a rank that fails while other
  /// ranks wait.
  [[noreturn]] virtual void abort(int status) noexcept = 0;
};

/// Initialises MPI in the constructor and finalises it in the destructor. Must be constructed
/// before every communicator and destroyed after all of them. If MPI is already initialised, the
/// session uses it and does not finalise it. If the session is destroyed because of an exception,
/// it does not call MPI_Finalize, which would wait for the other ranks; the launcher then
/// terminates them.
class MpiSession {
 public:
  /// Throws `Error` (usage) if the environment of the launcher announces several ranks but MPI has
  /// only one (`srun` without PMI starts N singletons), or if the MPI library does not provide
  /// MPI_THREAD_FUNNELED. Neither is checked if MPI is already initialised.
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owns_mpi_ = false;
};

/// Creates a communicator over all ranks of MPI; for one rank, a communicator that sends no
/// messages. Collective.
std::unique_ptr<Communicator> make_communicator(const MpiSession& session);

/// Creates a communicator of one rank that does not use MPI, for tests and tools.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace lockstep::comm
