// All-reduce of the gradients of resnet18-cifar (44.7 MB): ours against MPI_Allreduce, in turn.
//
//   mpirun -n 2 allreduce_bench [BYTES] [REPEATS] [fp32|bf16]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/error.hpp"

using namespace lockstep;

namespace {

constexpr std::size_t resnet18_cifar_bytes = 4 * 11'173'962;

comm::SweepOptions options_from(int argc, char** argv) {
  comm::SweepOptions options;
  options.min_bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : resnet18_cifar_bytes;
  options.max_bytes = options.min_bytes;
  options.repeats = argc > 2 ? std::atoi(argv[2]) : 9;
  options.warmup = 2;
  if (argc > 3 && std::string_view(argv[3]) == "bf16") options.wire = core::DataType::bfloat16;
  return options;
}

void print(const comm::SweepRow& row, int ranks) {
  std::vector<double> seconds = row.seconds;
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  std::printf("%-8s %10zu %10.2f %10.2f %10.2f %12.3f %8llu\n", row.way.c_str(), row.bytes,
              seconds.front() * 1e3, median * 1e3, seconds.back() * 1e3,
              comm::bus_bandwidth(row.bytes, median, ranks) * 1e-9,
              static_cast<unsigned long long>(row.wrong));
}

}  // namespace

int main(int argc, char** argv) try {
  const comm::MpiSession session(argc, argv);
  const auto world = comm::make_communicator(session);
  const auto rows = comm::sweep_all_reduce(*world, options_from(argc, argv));
  if (world->rank() != 0) return 0;
  std::printf("%d ranks, %s\n", world->size(), world->library_version().c_str());
  std::printf("%-8s %10s %10s %10s %10s %12s %8s\n", "way", "bytes", "min ms", "median ms",
              "max ms", "busbw GB/s", "wrong");
  for (const auto& row : rows) print(row, world->size());
  return 0;
} catch (const core::Error& error) {
  std::fprintf(stderr, "allreduce_bench: %s\n", error.what());
  return static_cast<int>(error.status());
}
