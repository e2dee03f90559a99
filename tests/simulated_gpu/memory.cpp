// SPDX-License-Identifier: BSD-3-Clause
// Replaces the functions of the CUDA runtime for memory, memsets and copies.

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

using Address = std::uintptr_t;

Address address(const void* data) { return reinterpret_cast<Address>(data); }

std::map<Address, Allocation>& allocations() {
  static std::map<Address, Allocation> all;
  return all;
}

/// Device memory that was freed and not allocated again.
std::map<Address, Address>& freed() {
  static std::map<Address, Address> all;  // begin, end
  return all;
}

bool is_freed(Address at) {
  auto after = freed().upper_bound(at);
  return after != freed().begin() && at < (--after)->second;
}

void forget_freed(Address begin, Address end) {
  std::erase_if(freed(),
                [&](const auto& range) { return range.first < end && begin < range.second; });
}

/// Returns whether the task, or the graph that it executes, reads memory of `access`.
bool reads(const Task& task, const Access& access) {
  for (const Access& read : task.reads)
    if (overlap(read, access)) return true;
  if (task.graph == nullptr) return false;
  for (const Node& node : task.graph->nodes)
    if (reads(node.task, access)) return true;
  return false;
}

bool is_read_by_queued_work(const Access& access) {
  for (const cudaStream_t stream : streams())
    for (const Task& task : stream->queue)
      if (reads(task, access)) return true;
  return false;
}

void require_memory(const Access& access, bool is_captured) {
  if (access.bytes == 0) return;
  const Allocation* const found = find_allocation(access.data);
  if (access.in == Access::In::any_host) {
    if (is_captured && (found == nullptr || found->in != Access::In::page_locked_host))
      violation("captured copy from or to pageable memory", "host memory that can be freed");
    return;
  }
  const Address offset = found == nullptr ? 0 : address(access.data) - found->begin;
  if (found == nullptr || found->in != access.in || offset + access.bytes > found->bytes)
    violation("access outside of an allocation",
              fmt::format("{} bytes at {}", access.bytes, access.data));
}

std::size_t free_memory = std::size_t{1} << 33;
int failed_allocations = 0;

std::size_t& count_of(Access::In in) {
  Objects& objects = mutable_objects();
  return in == Access::In::device ? objects.device_allocations : objects.page_locked_allocations;
}

cudaError_t allocate(void** data, std::size_t bytes, Access::In in) {
  constexpr std::size_t alignment = 256;
  static std::uint64_t id = 0;
  if (allocation_fails() || bytes > free_memory) {
    ++failed_allocations;
    return cudaErrorMemoryAllocation;
  }
  ++mutable_counters().allocations;
  *data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  std::memset(*data, 0xff, bytes);  // NaN in every type
  allocations()[address(*data)] = {address(*data), bytes, in, ++id};
  forget_freed(address(*data), address(*data) + bytes);
  ++count_of(in);
  return cudaSuccess;
}

cudaError_t release(void* data, const char* call) {
  require_no_capture(call);
  run_all();
  if (data == nullptr) return cudaSuccess;
  const auto found = allocations().find(address(data));
  if (found == allocations().end()) {
    violation("access outside of an allocation", fmt::format("{} of {}", call, data));
    return cudaErrorInvalidValue;
  }
  for (const CUgraph_st* graph : executable_graphs())
    if (graph->used.contains(found->second.id))
      violation("memory freed before the graph that uses it",
                fmt::format("{} of {} bytes", call, found->second.bytes));
  if (found->second.in == Access::In::device)
    freed()[found->first] = found->first + found->second.bytes;
  --count_of(found->second.in);
  std::memset(data, 0xff, found->second.bytes);
  allocations().erase(found);
  std::free(data);
  return cudaSuccess;
}

Task copy_task(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  using enum Access::In;
  const bool from_host = kind == cudaMemcpyHostToDevice, to_host = kind == cudaMemcpyDeviceToHost;
  const WorkKind work = from_host ? WorkKind::copy_to_device
                        : to_host ? WorkKind::copy_to_host
                                  : WorkKind::copy_on_device;
  return {.kind = work,
          .run = [=] { std::memcpy(to, from, bytes); },
          .bytes = bytes,
          .reads = {{from, bytes, from_host ? any_host : device}},
          .writes = {{to, bytes, to_host ? any_host : device}}};
}

Task memset_task(void* data, int value, std::size_t bytes) {
  return {.kind = WorkKind::memset,
          .run = [=] { std::memset(data, value, bytes); },
          .writes = {{data, bytes}}};
}

}  // namespace

void set_free_memory(std::size_t bytes) { free_memory = bytes; }
int count_failed_allocations() { return failed_allocations; }

const Allocation* find_allocation(const void* at) {
  auto after = allocations().upper_bound(address(at));
  if (after == allocations().begin()) return nullptr;
  const Allocation& candidate = (--after)->second;
  return address(at) < candidate.begin + candidate.bytes ? &candidate : nullptr;
}

std::set<std::uint64_t> device_allocations() {
  std::set<std::uint64_t> ids;
  for (const auto& [begin, allocation] : allocations())
    if (allocation.in == Access::In::device) ids.insert(allocation.id);
  return ids;
}

void require_memory(const Task& task, TaskState state) {
  for (const auto* accesses : {&task.reads, &task.writes})
    for (const Access& access : *accesses) require_memory(access, state == TaskState::captured);
}

bool overlap(const Access& a, const Access& b) {
  return address(a.data) < address(b.data) + b.bytes && address(b.data) < address(a.data) + a.bytes;
}

void add_pointers(std::span<const std::byte> arguments, Task& task) {
  for (std::size_t at = 0; at + sizeof(Address) <= arguments.size(); at += sizeof(Address)) {
    Address word = 0;
    std::memcpy(&word, arguments.data() + at, sizeof word);
    const void* const data = reinterpret_cast<const void*>(word);
    if (const Allocation* found = find_allocation(data)) {
      task.reads.push_back({data, 1, found->in});
    } else if (is_freed(word)) {
      violation("access outside of an allocation",
                fmt::format("an argument of a kernel points to freed memory, {}", data));
    }
  }
}

void poison_results(const Task& task) {
  if (task.kind == WorkKind::copy_to_host) {
    for (const Access& to : task.writes)
      if (!is_read_by_queued_work(to)) std::memset(const_cast<void*>(to.data), 0xff, to.bytes);
  }
  if (task.graph == nullptr) return;
  for (const Node& node : task.graph->nodes) poison_results(node.task);
}

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = std::size_t{1} << 33;
  *free = free_memory;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  require_no_capture("cudaMalloc");
  return allocate(data, bytes, Access::In::device);
}
cudaError_t cudaFree(void* data) { return release(data, "cudaFree"); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned int) {
  require_no_capture("cudaHostAlloc");
  return allocate(data, bytes, Access::In::page_locked_host);
}
cudaError_t cudaFreeHost(void* data) { return release(data, "cudaFreeHost"); }

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  require_no_capture("cudaMemset");
  enqueue(cudaStreamLegacy, memset_task(data, value, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, memset_task(data, value, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  require_no_capture("cudaMemcpy");
  ++mutable_counters().host_waits;
  enqueue(cudaStreamLegacy, copy_task(to, from, bytes, kind));
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  enqueue(stream, copy_task(to, from, bytes, kind));
  return cudaSuccess;
}

}  // extern "C"
