#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "all_reduce/registry.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"

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

class MpiCommunicator final : public Communicator {
 public:
  /// Creates a communicator of the ranks of `comm`. Collective over `comm`.
  explicit MpiCommunicator(MPI_Comm comm)
      : collectives_(duplicate(comm, "lockstep")),
        rank_(rank_in(collectives_.get())),
        size_(size_of(collectives_.get())),
        resources_(*this, collectives_.get()) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return resources_.local_rank(); }
  int local_size() const override { return resources_.local_size(); }
  int host() const override { return resources_.host(); }
  std::string library_version() const override { return mpi_library_version(); }
  std::vector<std::string> warnings() const override {
    if (!resources_.lacks_shared_memory()) return {};
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

  core::Buffer allocate(std::size_t bytes) override { return resources_.allocate(bytes); }
  std::vector<AllReduceAlgorithm> algorithms(std::span<const float> values,
                                             core::DataType communication_type) override;
  std::unique_ptr<AllReduce> make_all_reduce(std::span<float> values,
                                             core::DataType communication_type,
                                             AllReduceAlgorithm algorithm) override {
    check_communication_type(communication_type);
    return find_all_reduce(algorithm).make(resources_, values, communication_type);
  }

  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, status);
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
  int rank_;
  int size_;
  AllReduceResources resources_;
  MPI_Request small_sum_ = MPI_REQUEST_NULL;
};

std::vector<AllReduceAlgorithm> MpiCommunicator::algorithms(std::span<const float> values,
                                                            core::DataType communication_type) {
  double unshared = resources_.place_of(values).memory == nullptr ? 1 : 0;
  maximum(std::span(&unshared, 1));
  const AllReduceConditions conditions{.is_one_host = local_size() == size(),
                                       .is_shared = unshared == 0,
                                       .communication_type = communication_type};
  std::vector<AllReduceAlgorithm> available;
  for (const AllReduceEntry& entry : all_reduce_registry())
    if (obstacle_of(entry, conditions).empty()) available.push_back(entry.algorithm);
  return available;
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
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD);
}

}  // namespace lockstep::comm
