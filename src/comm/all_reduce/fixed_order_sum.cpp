// SPDX-License-Identifier: BSD-3-Clause
#include "fixed_order_sum.hpp"

#include <mpi.h>

#include <climits>

#include "../elements.hpp"
#include "doubling_roles.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

int peer_rank(std::size_t peer) { return static_cast<int>(peer); }

void send(const MessageRoute& route, std::span<const float> values, std::size_t peer) {
  check_mpi(MPI_Send(values.data(), static_cast<int>(values.size()), MPI_FLOAT, peer_rank(peer),
                     *route.first_tag, route.comm),
            "MPI_Send");
}

void receive(const MessageRoute& route, std::span<float> values, std::size_t peer) {
  check_mpi(MPI_Recv(values.data(), static_cast<int>(values.size()), MPI_FLOAT, peer_rank(peer),
                     *route.first_tag, route.comm, MPI_STATUS_IGNORE),
            "MPI_Recv");
}

}  // namespace

FixedOrderSum::FixedOrderSum(AllReduceResources& resources) {
  if (resources.ranks().size() > 1) route_ = resources.route();
}

void FixedOrderSum::run(std::span<float> values) {
  if (!route_) return;
  core::check(values.size() <= INT_MAX, "MPI counts the values of one message in an int");
  if (received_.size() < values.size()) received_.resize(values.size());
  const DoublingRoles roles(route_->ranks);
  const std::size_t rank = route_->rank;
  const bool is_paired = roles.is_paired(rank);
  if (is_paired && rank % 2 == 0) {
    send(*route_, values, rank + 1);
    receive(*route_, values, rank + 1);
    return;
  }
  if (is_paired) {
    const std::span<float> received = std::span(received_).first(values.size());
    receive(*route_, received, rank - 1);
    add(received, values);
  }
  const std::size_t index = roles.index_of(rank);
  for (std::size_t distance = 1; distance < roles.power; distance *= 2)
    exchange(values, roles.rank_of(index ^ distance));
  if (is_paired) send(*route_, values, rank - 1);
}

void FixedOrderSum::exchange(std::span<float> values, std::size_t peer) {
  const std::span<float> received = std::span(received_).first(values.size());
  const int count = static_cast<int>(values.size()), tag = *route_->first_tag;
  check_mpi(MPI_Sendrecv(values.data(), count, MPI_FLOAT, peer_rank(peer), tag, received.data(),
                         count, MPI_FLOAT, peer_rank(peer), tag, route_->comm, MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
  add(received, values);
}

}  // namespace lockstep::comm
