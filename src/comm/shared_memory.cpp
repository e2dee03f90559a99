// SPDX-License-Identifier: BSD-3-Clause
#include "shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "lockstep/core/format.hpp"
#include "lockstep/core/handle.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

namespace {

struct FileTraits {
  using type = int;
  static type null() noexcept { return -1; }
  static void close(type file) noexcept { ::close(file); }
};
using File = core::Handle<FileTraits>;

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
File create_file(std::size_t bytes) {
  constexpr unsigned no_execute = 0x0008;  // MFD_NOEXEC_SEAL of Linux 6.3; older kernels refuse it
  File file(::memfd_create("lockstep", MFD_CLOEXEC | no_execute));
  if (!file && errno == EINVAL) file.reset(::memfd_create("lockstep", MFD_CLOEXEC));
  check_system(bool(file), "memfd_create");
  do {
    errno = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  } while (errno == EINTR);
  check_system(errno == 0, fmt::format("{} of shared memory", core::format_bytes(double(bytes))));
  return file;
}

Address address_of(const File& file) {
  struct stat status {};
  check_system(::fstat(file.get(), &status) == 0, "fstat");
  return {::getpid(), file.get(), status.st_dev, status.st_ino};
}

/// Opens the file of another rank. Throws `std::system_error`.
File open_file(const Address& address) {
  const std::string path = fmt::format("/proc/{}/fd/{}", address.process, address.file);
  File file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
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

}  // namespace

void SharedMemory::map(int file, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  check_system(memory != MAP_FAILED, "mmap");
  parts_.emplace_back(static_cast<std::byte*>(memory), bytes);
}

SharedMemory::Allocation SharedMemory::allocate(MPI_Comm host, std::size_t bytes) {
  const int rank = rank_in(host);
  bytes = std::max<std::size_t>(bytes, 1);  // a mapping cannot be empty

  File own;
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
      const bool is_own = memory->parts_.size() == static_cast<std::size_t>(rank);
      const File other = is_own ? File() : open_file(peer);
      memory->map(is_own ? own.get() : other.get(), bytes);
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

}  // namespace lockstep::comm
