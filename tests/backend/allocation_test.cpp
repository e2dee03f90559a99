// Tests that no memory is allocated after the first step. This program replaces operator new to
// count allocations; it does not see those that libraries make with malloc. Whenever oneDNN
// executes a primitive, it allocates a few small maps of arguments (version 2.6: about twenty, each
// below 200 bytes), which its callers cannot avoid. Allocations of oneDNN below 1,024 bytes are
// therefore not counted.

#include <gmock/gmock.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <string>

#include "backend/support.hpp"

namespace {

std::atomic<std::int64_t> allocations{0};

bool is_small_one_of_onednn(const void* caller, std::size_t bytes) {
  Dl_info library{};
  return bytes < 1024 && dladdr(caller, &library) != 0 && library.dli_fname != nullptr &&
         std::strstr(library.dli_fname, "libdnnl") != nullptr;
}

void* allocate(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (!is_small_one_of_onednn(caller, bytes)) ++allocations;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr std::size_t usual = alignof(std::max_align_t);

/// Not inlined, because GCC would warn that `free` releases what `operator new` returned.
[[gnu::noinline]] void release(void* memory) { std::free(memory); }

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, usual, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, usual, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace lockstep::backend::test {
namespace {

class Allocation
    : public testing::TestWithParam<std::tuple<DeviceKind, core::Precision, int /*threads*/>> {};

TEST_P(Allocation, NoneAfterTheFirstStep) {
  const auto [kind, precision, threads] = GetParam();
  // Together, these networks contain every operation.
  const std::set<std::string> some{"three_consumers", "conv_bias_bn_relu_pool", "block_strided",
                                   "pool3x3", "relu"};
  for (const Network& network : small_networks()) {
    if (!some.contains(network.name)) continue;
    const Batch images = random_batch(network.graph, 2, 1);
    Replica training(kind, threads, network.graph, {.batch = 2, .precision = precision});
    Replica inference(kind, threads, network.graph,
                      {.batch = 2, .precision = precision, .mode = Mode::inference});
    const auto step = [&] {
      training.step(images);
      inference.upload(images);
      inference.plan->forward();
      return training.plan->result().loss_sum + training.plan->logits()[0] +
             inference.plan->result().loss_sum;
    };
    step();
    const std::int64_t before = allocations;
    step();
    step();
    EXPECT_EQ(allocations - before, 0) << network.name;
  }
}

TEST(AllocationCounter, CountsVectors) {
  const std::int64_t before = allocations;
  const std::vector<float> some(100);
  EXPECT_EQ(allocations - before, 1) << some.size();
}

using core::Precision;

INSTANTIATE_TEST_SUITE_P(Devices, Allocation,
                         testing::Values(std::tuple{DeviceKind::reference, Precision::fp32, 1},
                                         std::tuple{DeviceKind::cpu, Precision::fp32, 1},
                                         std::tuple{DeviceKind::cpu, Precision::fp32, 2},
                                         std::tuple{DeviceKind::cpu, Precision::bf16, 1}),
                         [](const auto& test) {
                           return fmt::format(
                               "{}_{}_{}_threads", core::name(std::get<0>(test.param)),
                               core::name(std::get<1>(test.param)), std::get<2>(test.param));
                         });

}  // namespace
}  // namespace lockstep::backend::test
