// SPDX-License-Identifier: BSD-3-Clause
#include "resources.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/handle.hpp"

namespace lockstep::comm {

namespace {

/// Identifies the file of a rank, so that the other ranks of the host can open and verify it.
struct Address {
  std::int64_t process = 0;
  std::int64_t file = -1;  ///< descriptor in that process; -1: the file could not be created
  std::uint64_t device = 0, inode = 0;
};

void check_system(bool is_done, const std::string& what) {
  if (!is_done) throw std::system_error(errno, std::generic_category(), what);
}

/// Creates an anonymous file of `bytes` bytes and allocates all its pages. Throws
/// `std::system_error`.
core::Descriptor create_file(std::size_t bytes) {
  constexpr unsigned no_execute = 0x0008;  // MFD_NOEXEC_SEAL of Linux 6.3; older kernels refuse it
  core::Descriptor file(::memfd_create("lockstep", MFD_CLOEXEC | no_execute));
  if (!file && errno == EINVAL) file.reset(::memfd_create("lockstep", MFD_CLOEXEC));
  check_system(bool(file), "memfd_create");
  do {
    errno = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  } while (errno == EINTR);
  check_system(errno == 0, fmt::format("{} of shared memory", core::format_bytes(double(bytes))));
  return file;
}

Address address_of(const core::Descriptor& file) {
  struct stat status {};
  check_system(::fstat(file.get(), &status) == 0, "fstat");
  return {::getpid(), file.get(), status.st_dev, status.st_ino};
}

/// Opens the file of another rank. Throws `std::system_error`.
core::Descriptor open_file(const Address& address) {
  const std::string path = fmt::format("/proc/{}/fd/{}", address.process, address.file);
  core::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  check_system(bool(file), path);
  const Address found = address_of(file);
  // If that rank is in another PID namespace, its process id belongs to another process here.
  errno = ESRCH;
  check_system(found.device == address.device && found.inode == address.inode, path);
  return file;
}

/// Runs `work`; returns the reason if it throws `std::system_error`, otherwise an empty string.
template <class Work>
std::string failure_of(Work&& work) {
  try {
    work();
    return {};
  } catch (const std::system_error& error) {
    return error.what();
  }
}

int largest_tag(MPI_Comm comm) {
  int* value = nullptr;
  int is_set = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &is_set), "MPI_Comm_get_attr");
  return is_set != 0 ? *value : 32767;  // the minimum that the MPI standard guarantees
}

}  // namespace

SharedMemory::Allocation SharedMemory::allocate(MPI_Comm host, std::size_t bytes) {
  const int rank = rank_in(host);
  bytes = std::max<std::size_t>(bytes, 1);  // a mapping cannot be empty

  core::Descriptor own;
  Address address;
  std::string failure = failure_of([&] {
    own = create_file(bytes);
    address = address_of(own);
  });
  std::vector<Address> addresses(static_cast<std::size_t>(size_of(host)));
  check_mpi(MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses.data(), sizeof address,
                          MPI_BYTE, host),
            "MPI_Allgather");
  if (std::ranges::any_of(addresses, [](const Address& a) { return a.file < 0; }))
    return {nullptr, failure};

  const std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->parts_.reserve(addresses.size());
  failure = failure_of([&] {
    for (const Address& peer : addresses) {
      const core::Descriptor file = open_file(peer);
      void* const part = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
      check_system(part != MAP_FAILED, "mmap");
      memory->parts_.emplace_back(static_cast<std::byte*>(part), bytes);
    }
    std::memset(memory->part(rank).data(), 0, bytes);  // maps the pages now, not in the first step
  });
  // After this call all ranks have opened all files, so that the descriptors can be closed.
  int has_failed = failure.empty() ? 0 : 1;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &has_failed, 1, MPI_INT, MPI_MAX, host), "MPI_Allreduce");
  if (has_failed != 0) return {nullptr, failure};
  return {memory, {}};
}

SharedMemory::~SharedMemory() {
  for (const std::span<std::byte> part : parts_) ::munmap(part.data(), part.size());
}

std::shared_ptr<const int> TagPool::take() {
  if (static_cast<std::int64_t>(used_->size()) == capacity_) return nullptr;
  int first_tag = 0;
  while (used_->contains(first_tag)) first_tag += tags_per_all_reduce;
  used_->insert(first_tag);
  return {new int(first_tag), [used = used_](const int* tag) {
            used->erase(*tag);
            delete tag;
          }};
}

AllReduceResources::AllReduceResources(Communicator& ranks) : ranks_(ranks) {
  if (ranks.mpi_ranks() == nullptr) return;
  const MPI_Comm all = ranks.mpi_ranks()->all;
  messages_ = duplicate(all, "lockstep-messages");
  tags_.emplace(largest_tag(messages_.get()));
  const bool is_equal = minimum(ranks, ranks.local_size()) == maximum(ranks, ranks.local_size());
  can_share_ = is_equal && ranks.local_size() > 1;
  if (can_share_ && !is_one_host()) between_ = split(all, ranks.local_rank(), ranks.rank());
}

core::Buffer AllReduceResources::allocate(std::size_t bytes) {
  if (!can_share_) return core::Buffer(bytes);
  const SharedMemory::Allocation shared = SharedMemory::allocate(ranks_.mpi_ranks()->host, bytes);
  const std::vector<std::string> failures = all_gather(ranks_, shared.failure);
  const auto first = std::ranges::find_if_not(failures, &std::string::empty);
  if (first != failures.end()) {
    if (first - failures.begin() == ranks_.rank() && warnings_.empty()) {
      core::log_warning(fmt::format(
          "{}: ranks of a host cannot share memory ({}); arrays are summed with messages instead, "
          "which can take longer",
          describe_rank(ranks_), shared.failure));
    }
    warnings_ = {"ranks of a host cannot share memory; arrays are summed with messages instead"};
    return core::Buffer(bytes);
  }
  shared_memory_.push_back(shared.memory);
  return {shared.memory->part(ranks_.local_rank()), shared.memory};
}

SharedPlace AllReduceResources::place_of(std::span<const float> values) const {
  for (const auto& entry : shared_memory_) {
    const auto memory = entry.lock();
    if (memory == nullptr) continue;
    const std::span<const std::byte> part = memory->part(ranks_.local_rank());
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    if (begin < part.data() || begin + values.size_bytes() > part.data() + part.size()) continue;
    return {memory, static_cast<std::size_t>(begin - part.data())};
  }
  return {};
}

SharedPlace AllReduceResources::take_flags() {
  constexpr std::size_t bytes = 1024 * shared_flag_bytes;
  if (flags_.memory == nullptr || flags_.offset == bytes) {
    const SharedMemory::Allocation shared = SharedMemory::allocate(ranks_.mpi_ranks()->host, bytes);
    together(ranks_, [&] {
      if (shared.failure.empty()) return;
      core::fail(core::ExitStatus::out_of_memory,
                 fmt::format("{}: no shared memory for the flags of an all-reduce ({}); use "
                             "--all-reduce direct",
                             describe_rank(ranks_), shared.failure));
    });
    flags_ = {shared.memory, 0};
  }
  const SharedPlace place = flags_;
  flags_.offset += shared_flag_bytes;
  return place;
}

MessageRoute AllReduceResources::route_in(MPI_Comm comm) {
  std::shared_ptr<const int> first_tag = tags_->take();
  if (first_tag == nullptr) {
    fail_together(ranks_, core::ExitStatus::usage,
                  fmt::format("this MPI library has tags for {} all-reduces at the same time, and "
                              "each bucket of gradients is one; use larger buckets (--bucket-mib)",
                              tags_->capacity()));
  }
  return {comm, static_cast<std::size_t>(rank_in(comm)), static_cast<std::size_t>(size_of(comm)),
          std::move(first_tag)};
}

}  // namespace lockstep::comm
