#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "mpi_all_reduce.hpp"
#include "mpi_check.hpp"
#include "pieced_all_reduce.hpp"
#include "rank_name.hpp"
#include "ring_all_reduce.hpp"
#include "self_communicator.hpp"
#include "shared_all_reduce.hpp"
#include "shared_memory.hpp"
#include "tag_pool.hpp"

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

MpiComm duplicate(MPI_Comm comm, const char* name) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_set_name(copy, name), "MPI_Comm_set_name");
  return MpiComm(copy);
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

int largest_tag(MPI_Comm comm) {
  int* value = nullptr;
  int is_set = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &is_set), "MPI_Comm_get_attr");
  return is_set != 0 ? *value : 32767;  // the minimum that the MPI standard guarantees
}

/// Returns the index of this rank's host among all hosts, in the order of their lowest ranks.
/// `host`: the ranks of this host. Collective over `all`.
int index_of_host(MPI_Comm all, MPI_Comm host) {
  int lowest = rank_in(all);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
  std::vector<int> lowest_ranks(static_cast<std::size_t>(size_of(all)));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, lowest_ranks.data(), 1, MPI_INT, all),
            "MPI_Allgather");
  const std::set<int> hosts(lowest_ranks.begin(), lowest_ranks.end());
  return static_cast<int>(std::distance(hosts.begin(), hosts.find(lowest)));
}

/// Returns the first rank whose text is not empty; empty if there is none.
std::optional<int> first_failure(const std::vector<std::string>& failures) {
  const auto found = std::ranges::find_if_not(failures, &std::string::empty);
  if (found == failures.end()) return std::nullopt;
  return static_cast<int>(found - failures.begin());
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator()
      : collectives_(duplicate(MPI_COMM_WORLD, "lockstep")),
        messages_(duplicate(MPI_COMM_WORLD, "lockstep-messages")),
        rank_(rank_in(collectives_.get())),
        size_(size_of(collectives_.get())),
        tags_(largest_tag(messages_.get()), tags_per_all_reduce) {
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(
        MPI_Comm_split_type(collectives_.get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &comm),
        "MPI_Comm_split_type");
    host_ = MpiComm(comm);
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    local_rank_ = rank_in(host_.get());
    local_size_ = size_of(host_.get());
    host_index_ = index_of_host(collectives_.get(), host_.get());
    std::array<int, 2> largest = {local_size_, -local_size_};
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, largest.data(), 2, MPI_INT, MPI_MAX, collectives_.get()),
              "MPI_Allreduce");
    has_even_hosts_ = largest[0] == -largest[1];
    if (!has_even_hosts_ || local_size_ == size_ || local_size_ == 1) return;
    check_mpi(MPI_Comm_split(collectives_.get(), local_rank_, rank_, &comm), "MPI_Comm_split");
    between_ = MpiComm(comm);
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  int host() const override { return host_index_; }
  std::string library_version() const override { return mpi_library_version(); }
  std::vector<std::string> warnings() const override {
    if (!has_warned_) return {};
    return {"ranks of a host cannot share memory; arrays are summed with messages instead"};
  }

  void barrier() override { check_mpi(MPI_Barrier(collectives_.get()), "MPI_Barrier"); }

  void sum(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_SUM); }
  void sum(std::span<float> values) override { reduce(values, MPI_FLOAT, MPI_SUM); }
  void maximum(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_MAX); }

  void broadcast(std::span<std::byte> data, int root) override {
    in_countable_parts(data, [&](std::byte* part, int count) {
      check_mpi(MPI_Bcast(part, count, MPI_BYTE, root, collectives_.get()), "MPI_Bcast");
    });
  }

  std::vector<std::string> all_gather(const std::string& text) override;
  std::vector<double> gather(std::span<const double> values) override;

  void start_sum(std::span<double> values) override {
    core::check(small_sum_ == MPI_REQUEST_NULL, "one small sum at a time");
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                             MPI_DOUBLE, MPI_SUM, collectives_.get(), &small_sum_),
              "MPI_Iallreduce");
  }

  void finish_sum() override {
    int is_complete = 0;
    while (true) {
      check_mpi(MPI_Test(&small_sum_, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
      if (is_complete != 0) return;
      sched_yield();
    }
  }

  core::Buffer allocate(std::size_t bytes) override;
  std::vector<AllReduceWay> ways(std::span<const float> values, core::DataType wire) override;
  std::unique_ptr<AllReduce> make_all_reduce(std::span<float> values, core::DataType wire,
                                             AllReduceWay way) override;

  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 private:
  /// Returns whether an algorithm for shared memory exists for these ranks; the same on all ranks.
  bool can_share() const { return has_even_hosts_ && local_size_ > 1; }
  /// Returns the position of `values` in the shared memory of this host; null memory if they are in
  /// private memory.
  SharedPlace shared_place(std::span<const float> values) const;
  /// Allocates the flags of one shared-memory all-reduce. Collective.
  SharedPlace next_flags();
  /// Allocates the tags of one all-reduce over `comm`. Collective.
  MessageRoute route(MPI_Comm comm);

  template <class T>
  void reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation) {
    in_countable_parts(values, [&](T* part, int count) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, part, count, type, operation, collectives_.get()),
                "MPI_Allreduce");
    });
  }

  MpiComm collectives_;
  MpiComm messages_;  ///< for the all-reduces, so that their tags cannot match other messages
  MpiComm host_;      ///< the ranks of this host
  MpiComm between_;   ///< the ranks with this local rank, one of each host; null if there is only
                      ///< one host, hosts have one rank, or their numbers of ranks differ
  std::vector<std::weak_ptr<const SharedMemory>> shared_memory_;  ///< allocated by `allocate`
  SharedPlace flags_;                                             ///< flags of the next all-reduce
  int rank_;
  int size_;
  bool has_even_hosts_ = false;
  bool has_warned_ = false;  ///< a warning that memory cannot be shared was logged
  int local_rank_ = 0;
  int local_size_ = 1;
  int host_index_ = 0;
  TagPool tags_;
  MPI_Request small_sum_ = MPI_REQUEST_NULL;
};

core::Buffer MpiCommunicator::allocate(std::size_t bytes) {
  if (!can_share()) return core::Buffer(bytes);
  const SharedMemory::Allocation shared = SharedMemory::allocate(host_.get(), bytes);
  if (const auto failed = first_failure(all_gather(shared.failure))) {
    if (*failed == rank_ && !has_warned_) {
      core::log_warning(fmt::format(
          "{}: ranks of a host cannot share memory ({}); arrays are summed with messages instead, "
          "which can take longer",
          describe_rank(*this), shared.failure));
    }
    has_warned_ = true;  // the same on all ranks
    return core::Buffer(bytes);
  }
  shared_memory_.push_back(shared.memory);
  return {shared.memory->part(local_rank_), shared.memory};
}

SharedPlace MpiCommunicator::shared_place(std::span<const float> values) const {
  for (const auto& entry : shared_memory_) {
    const auto memory = entry.lock();
    if (memory == nullptr) continue;
    const std::span<const std::byte> part = memory->part(local_rank_);
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    if (begin < part.data() || begin + values.size_bytes() > part.data() + part.size()) continue;
    return {memory, static_cast<std::size_t>(begin - part.data())};
  }
  return {};
}

std::vector<AllReduceWay> MpiCommunicator::ways(std::span<const float> values,
                                                core::DataType wire) {
  std::vector<AllReduceWay> ways;
  std::array<double, 1> unshared = {shared_place(values).memory == nullptr ? 1.0 : 0.0};
  maximum(unshared);
  if (unshared[0] == 0)  // only memory from `allocate` is shared, and only if `can_share`
    ways.push_back(local_size_ == size_ ? AllReduceWay::shared : AllReduceWay::two_level);
  ways.push_back(AllReduceWay::pieces);
  if (wire == core::DataType::float32) {
    ways.push_back(AllReduceWay::ring);
    ways.push_back(AllReduceWay::mpi);
  }
  return ways;
}

SharedPlace MpiCommunicator::next_flags() {
  constexpr std::size_t bytes = 1024 * shared_flag_bytes;
  if (flags_.memory == nullptr || flags_.offset == bytes) {
    const SharedMemory::Allocation shared = SharedMemory::allocate(host_.get(), bytes);
    together(*this, [&] {
      if (shared.failure.empty()) return;
      core::fail(core::ExitStatus::out_of_memory,
                 fmt::format("{}: no shared memory for the flags of an all-reduce ({}); use "
                             "--all-reduce pieces",
                             describe_rank(*this), shared.failure));
    });
    flags_ = {shared.memory, 0};
  }
  const SharedPlace place = flags_;
  flags_.offset += shared_flag_bytes;
  return place;
}

MessageRoute MpiCommunicator::route(MPI_Comm comm) {
  const std::shared_ptr<const int> tags = tags_.take();
  if (tags == nullptr) {
    fail_together(*this, core::ExitStatus::usage,
                  fmt::format("this MPI library has tags for {} all-reduces at the same time, and "
                              "each bucket of gradients is one; use larger buckets (--bucket-mib)",
                              tags_.capacity()));
  }
  return {comm, rank_in(comm), size_of(comm), *tags, tags};
}

std::unique_ptr<AllReduce> MpiCommunicator::make_all_reduce(std::span<float> values,
                                                            core::DataType wire, AllReduceWay way) {
  check_wire(wire);
  switch (way) {
    case AllReduceWay::shared:
      return make_shared_all_reduce(local_rank_, local_size_, shared_place(values), values.size(),
                                    next_flags());
    case AllReduceWay::two_level:
      return make_shared_all_reduce(local_rank_, local_size_, shared_place(values), values.size(),
                                    next_flags(), [&](std::span<float> part) {
                                      return make_pieced_all_reduce(route(between_.get()), part,
                                                                    wire);
                                    });
    case AllReduceWay::pieces: return make_pieced_all_reduce(route(messages_.get()), values, wire);
    case AllReduceWay::ring: return make_ring_all_reduce(route(messages_.get()), values);
    case AllReduceWay::mpi: return make_mpi_all_reduce(messages_.get(), values);
    case AllReduceWay::automatic: break;
  }
  core::check(false, "an all-reduce is made in a certain way");
  return nullptr;
}

std::vector<std::string> MpiCommunicator::all_gather(const std::string& text) {
  const auto ranks = static_cast<std::size_t>(size_);
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(ranks);
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, collectives_.get()),
            "MPI_Allgather");
  std::vector<int> offsets(ranks + 1, 0);
  for (std::size_t r = 0; r < ranks; ++r) offsets[r + 1] = offsets[r] + lengths[r];
  std::string all(static_cast<std::size_t>(offsets[ranks]), '\0');
  check_mpi(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(),
                           offsets.data(), MPI_CHAR, collectives_.get()),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  }
  return texts;
}

std::vector<double> MpiCommunicator::gather(std::span<const double> values) {
  const int count = static_cast<int>(values.size());
  std::vector<double> all(rank_ == 0 ? values.size() * static_cast<std::size_t>(size_) : 0);
  check_mpi(MPI_Gather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0,
                       collectives_.get()),
            "MPI_Gather");
  return all;
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const MpiSession&) {
  if (size_of(MPI_COMM_WORLD) == 1) return make_self_communicator(mpi_library_version());
  return std::make_unique<MpiCommunicator>();
}

}  // namespace lockstep::comm
