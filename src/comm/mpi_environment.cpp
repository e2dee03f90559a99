// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_environment.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

namespace fs = std::filesystem;

/// Returns the contents of a file; empty if it cannot be read.
std::optional<std::string> contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || text.empty()) return std::nullopt;
  return text;
}

/// Returns the parent of a process; 0 if it is unknown or in another PID namespace.
int parent_of(const fs::path& process) {
  std::ifstream file(process / "status");
  for (std::string word; file >> word;) {
    int parent = 0;
    if (word == "PPid:" && file >> parent) return parent;
  }
  return 0;
}

/// Returns whether all users of the host have their own numbers in the namespace of this process,
/// as in the initial user namespace.
bool has_all_users(const fs::path& root) {
  std::ifstream file(root / "proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  return !(file >> inside >> outside >> count) || (outside == 0 && count == UINT32_MAX);
}

fs::path user_namespace(const fs::path& process) {
  std::error_code failed;
  return fs::read_symlink(process / "ns/user", failed);
}

/// Returns whether the system permits this process to read the memory of a process; some containers
/// forbid the system call.
bool can_read_memory() {
  char from = 1, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

void set_default(const char* name, const char* value) {
  constexpr int keep = 0;
  ::setenv(name, value, keep);
}

}  // namespace

Separation separation_from(const Launch& launch, int parent, const fs::path& root) {
  const bool has_own_users = !has_all_users(root);
  for (int process = parent; process > 0;) {
    const fs::path folder = root / "proc" / fmt::format("{}", process);
    // Entries NAME=VALUE, each followed by a null character.
    const std::string before_first(1, '\0');
    const auto entries = contents_of(folder / "environ");
    const bool is_launched =
        entries &&
        (before_first + *entries).find(before_first + launch.variable + '=') != std::string::npos;
    if (!is_launched) {
      const fs::path users = user_namespace(folder);
      return {false,
              has_own_users && (users.empty() || users != user_namespace(root / "proc/self"))};
    }
    process = parent_of(folder);
  }
  return {true, has_own_users};
}

void require_session_directory(const EnvironmentLookup& lookup) {
  for (const char* const name : {"TMPDIR", "TMP", "TEMP"}) {
    const char* const directory = lookup(name);
    if (directory == nullptr || *directory == '\0') continue;
    std::string probe = fmt::format("{}/lockstep-XXXXXX", directory);
    std::error_code ignored;
    if (fs::is_directory(directory, ignored) && ::mkdtemp(probe.data()) == nullptr) {
      const int reason = errno;
      core::fail(
          core::ExitStatus::output,
          fmt::format("{}={}: MPI cannot create its temporary files there ({}); name another "
                      "directory, or unset the variable",
                      name, directory, std::generic_category().message(reason)));
    }
    fs::remove(probe, ignored);
    return;
  }
}

MpiEnvironment::MpiEnvironment(const std::optional<Launch>& launch) {
  // Open MPI sends messages of more than 64 KiB over TCP only after a rendezvous handshake, for
  // which both ranks must be in an MPI call; while one of them executes a compute kernel, the link
  // is idle. This raises the eager limit so that the messages of the algorithm `direct` are sent
  // immediately.
  set_default("OMPI_MCA_btl_tcp_eager_limit", "270336");  // 256 KiB plus space for a header
  set_default("OMPI_MCA_btl_tcp_max_send_size", "270336");

  const Separation separation = launch ? separation_from(*launch, ::getppid()) : Separation{};
  // Ranks in different user namespaces cannot read each other's memory, and Open MPI 4 then waits
  // forever for large messages.
  if (separation.by_users || !can_read_memory())
    set_default("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  // Open MPI 4 mistakes the shared memory of a rank with the same process number for its own.
  if (separation.by_process_ids) set_default("OMPI_MCA_btl", "^vader");

  // MPI_Init of Open MPI fails without a home directory, in which it looks for settings.
  if (std::getenv("HOME") == nullptr && ::getpwuid(::getuid()) == nullptr)
    has_set_home_ = ::setenv("HOME", "/nonexistent", 0) == 0;
}

MpiEnvironment::~MpiEnvironment() {
  if (has_set_home_) ::unsetenv("HOME");
}

}  // namespace lockstep::comm
