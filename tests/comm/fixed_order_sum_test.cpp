// SPDX-License-Identifier: BSD-3-Clause
// Sums with an MPI library whose MPI_Allreduce changes its algorithm from call to call, as MPICH 5
// does once.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/replica.hpp"
#include "world.hpp"

namespace {

int calls = 0;

template <class T>
void change_last_bits(void* sums, int count) {
  T* const values = static_cast<T*>(sums);
  for (int i = 0; i < count; ++i)
    values[i] = std::nextafter(values[i], std::numeric_limits<T>::max());
}

/// Changes the last bit of every sum of floating-point values in every second call.
int reduce_in_changing_order(const void* values, void* sums, int count, MPI_Datatype type,
                             MPI_Op operation, MPI_Comm communicator) {
  const int status = PMPI_Allreduce(values, sums, count, type, operation, communicator);
  if ((type != MPI_FLOAT && type != MPI_DOUBLE) || ++calls % 2 == 0) return status;
  if (type == MPI_FLOAT) change_last_bits<float>(sums, count);
  if (type == MPI_DOUBLE) change_last_bits<double>(sums, count);
  return status;
}

}  // namespace

extern "C" int MPI_Allreduce(const void* values, void* sums, int count, MPI_Datatype type,
                             MPI_Op operation, MPI_Comm communicator) {
  return reduce_in_changing_order(values, sums, count, type, operation, communicator);
}

extern "C" int MPI_Iallreduce(const void* values, void* sums, int count, MPI_Datatype type,
                              MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return reduce_in_changing_order(values, sums, count, type, operation, communicator);
}

namespace lockstep::comm {
namespace {

constexpr std::size_t elements = 1025;  // two sums per channel and the number of images

/// A value whose sum over the ranks depends on the order.
float value_of(int rank, std::size_t element) {
  const float angle = static_cast<float>(element * 7 + static_cast<std::size_t>(rank) * 131);
  return std::sin(angle) * std::exp2(static_cast<float>((rank * 5 + 3) % 8));
}

std::vector<float> values_of(int rank) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = value_of(rank, i);
  return values;
}

/// Returns the sum in the documented order.
float expected_sum(int ranks, std::size_t element) {
  const auto value = [&](int rank) { return value_of(rank, element); };
  const float two = ranks > 1 ? value(0) + value(1) : value(0);
  if (ranks == 3) return two + value(2);
  if (ranks == 4) return two + (value(2) + value(3));
  if (ranks == 5) return (two + value(2)) + (value(3) + value(4));
  return two;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

class FixedOrderSumTest : public testing::Test {
 protected:
  std::unique_ptr<Communicator> world = make_world();
  std::unique_ptr<GradientTransport> transport =
      make_gradient_transport(*world, core::DeviceQueue(), {});
};

TEST_F(FixedOrderSumTest, StatisticsAreEqualBitsInEveryCall) {
  std::vector<float> expected(elements);
  for (std::size_t i = 0; i < elements; ++i) expected[i] = expected_sum(world->size(), i);
  for (int call = 0; call < 8; ++call) {
    std::vector<float> values = values_of(world->rank());
    transport->statistics_all_reduce().sum(values);
    ASSERT_EQ(bits_of(values), bits_of(expected)) << "call " << call;
  }
}

TEST_F(FixedOrderSumTest, SumsOfOtherLengthsAreExact) {
  for (const std::size_t count : std::vector<std::size_t>{0, 1, 9000, 2}) {
    std::vector<float> values(count, static_cast<float>(world->rank() + 1));
    transport->statistics_all_reduce().sum(values);
    const int sum = world->size() * (world->size() + 1) / 2;
    EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(sum)));
  }
}

TEST_F(FixedOrderSumTest, DoublesAreAddedInRankOrderInEveryCall) {
  constexpr std::size_t count = 5000;  // more than one message
  std::vector<double> terms(count), expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    terms[i] = static_cast<double>(value_of(world->rank(), i)) / 3;
    for (int rank = 0; rank < world->size(); ++rank)
      expected[i] += static_cast<double>(value_of(rank, i)) / 3;
  }
  for (int call = 0; call < 8; ++call) {
    std::vector<double> values = terms;
    world->sum(std::span<double>(values));
    ASSERT_EQ(values, expected) << "call " << call;
  }
}

TEST_F(FixedOrderSumTest, TheLibraryOfThisTestChangesItsSums) {
  if (world->size() == 1) return;
  std::vector<float> first = values_of(world->rank()), second = first;
  world->sum(std::span<float>(first));
  world->sum(std::span<float>(second));
  EXPECT_NE(bits_of(first), bits_of(second));
}

}  // namespace
}  // namespace lockstep::comm
