// SPDX-License-Identifier: BSD-3-Clause
#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

std::string advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return "free some space or choose another file system";
    case EFBIG: return "raise the limit on file sizes (ulimit -f) or write less";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a place where you may write";
    case ENOENT: return "create the directory with mkdir -p";
    case EEXIST:
    case EISDIR: return "choose another name";
    case ENAMETOOLONG: return "choose a shorter name";
    default: return "look at the file system or choose another place";
  }
}

/// Maximum number of bytes that suffixes add to a file name, as in
/// ".part1000.h5.partial.finishing".
constexpr std::size_t longest_ending = 32;

bool is_same_file(const Descriptor& file, const fs::path& path) {
  struct stat own {
  }, found{};
  return ::fstat(file.get(), &own) == 0 && ::stat(path.c_str(), &found) == 0 &&
         own.st_ino == found.st_ino && own.st_dev == found.st_dev;
}

bool is_unsupported(int error_number) {
  return error_number == EINVAL || error_number == ENOTSUP || error_number == EOPNOTSUPP ||
         error_number == ENOSYS;
}

}  // namespace

void fail_output(const std::string& doing, const fs::path& path, int error_number,
                 std::string reason) {
  if (reason.empty()) reason = std::generic_category().message(error_number);
  core::fail(core::ExitStatus::output, fmt::format("{} {} failed ({}); {}", doing, path.string(),
                                                   reason, advice(error_number)));
}

void writing(const fs::path& path, const std::function<void()>& work) {
  try {
    work();
  } catch (const hdf5::Failure& failure) {
    fail_output("writing", path, failure.error_number(), failure.what());
  }
}

fs::path partial_path(fs::path path) { return path += ".partial"; }

fs::path creating_path(fs::path partial) { return partial += ".creating"; }

fs::path finishing_path(fs::path partial) { return partial += ".finishing"; }

void write_and_rename(const fs::path& path, OverwriteMode mode,
                      const std::function<void(const fs::path&, const Descriptor&)>& write) {
  const fs::path temporary =
      parent_of(path) / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
  remove_if_stale(temporary);  // process ids are reused, in particular in containers
  const Descriptor file = create_in_use(temporary);
  try {
    write(temporary, file);
    rename_synced(temporary, path, mode);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void require_place(const fs::path& path) {
  const auto refuse = [&](const std::string& why, const std::string& advice) {
    core::fail(core::ExitStatus::output,
               fmt::format("cannot write {} ({}); {}", path.string(), why, advice));
  };
  std::error_code error;
  const fs::path parent = parent_of(path);
  const bool is_directory = fs::is_directory(parent, error);
  if (error == std::errc::no_such_file_or_directory)
    refuse("there is no directory " + parent.string(),
           "create it with mkdir -p " + parent.string());
  if (error) fail_output("finding", parent, error.value());
  if (!is_directory) refuse(parent.string() + " is not a directory", "choose another place");
  // The target of a symbolic link is checked as well, because renaming would replace the link.
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status) || !path.has_filename())
    refuse("it is a directory", "give the name of a file");
  if (fs::exists(status) && !fs::is_regular_file(status))
    refuse("it is not a regular file", "choose another name");
  const long limit = ::pathconf(parent.c_str(), _PC_NAME_MAX);
  const std::size_t bytes = path.filename().string().size();
  if (limit <= 0 || bytes + longest_ending <= static_cast<std::size_t>(limit)) return;
  refuse(fmt::format("its name has {} bytes; the file system allows {}, of which {} are for "
                     "temporary names",
                     bytes, limit, longest_ending),
         "choose a shorter name");
}

Descriptor create_in_use(const fs::path& path) {
  while (true) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) fail_output("creating", path, errno);
    // The lock is shared because readers, including HDF5, also take shared locks. Between open()
    // and flock() another process may find the file unlocked, lock it exclusively and delete it as
    // stale. Therefore this waits for the lock and then checks that the name still refers to this
    // file.
    int failed = 0;
    do {
      failed = ::flock(file.get(), LOCK_SH);
    } while (failed != 0 && errno == EINTR);
    if (failed != 0 || is_same_file(file, path)) return file;
  }
}

ExistingFile lock_if_stale(const fs::path& path, bool create) {
  while (true) {
    ExistingFile result;
    constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    // NFS requires write access for exclusive locks, which a file of another user may not permit.
    result.lock = Descriptor(::open(path.c_str(), flags | O_RDWR | (create ? O_CREAT : 0), 0666));
    if (!result.lock && errno == EACCES)
      result.lock = Descriptor(::open(path.c_str(), flags | O_RDONLY));
    if (!result.lock && (errno == ENOENT || errno == EROFS)) return result;
    struct stat status {};
    if (!result.lock || ::fstat(result.lock.get(), &status) != 0)
      fail_output("opening", path, errno);
    if (!S_ISREG(status.st_mode)) fail_output("opening", path, EEXIST, "not a regular file");
    if (create && status.st_nlink > 1) fail_output("opening", path, EEXIST, "it has several names");
    if (::flock(result.lock.get(), LOCK_EX | LOCK_NB) != 0) {
      result.use = errno == EWOULDBLOCK ? Use::in_use : Use::unknown;
      return result;
    }
    // The owner of the lock may have renamed or deleted the file before it released the lock. Only
    // the owner does so, so the name is stable now.
    if (!is_same_file(result.lock, path)) continue;
    result.use = Use::stale;
    return result;
  }
}

void delete_file(const fs::path& path) {
  std::error_code error;
  if (!fs::remove(path, error) && error) {
    core::log_warning(fmt::format("cannot delete {} ({})", path.string(), error.message()));
  }
}

void remove_if_stale(const fs::path& path) {
  const ExistingFile existing = lock_if_stale(path);
  std::error_code error;
  if (existing.use == Use::unknown) {
    const auto written = fs::last_write_time(path, error);
    if (error || fs::file_time_type::clock::now() - written < std::chrono::hours(1)) return;
  } else if (existing.use != Use::stale) {
    return;
  }
  delete_file(path);
}

void reserve(const Descriptor& file, std::size_t bytes, const fs::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_output("extending", path, errno);
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file.get(), status.st_size, static_cast<off_t>(bytes));
  }
  // If the file system does not support allocation, a full disk is detected by the write itself.
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL) return;
  if (::ftruncate(file.get(), status.st_size) != 0) core::log_warning("shortening a file failed");
  fail_output("extending", path, error);
}

void sync(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // Files can be created in a directory without permission to read its entries.
  if (!file && (errno == EACCES || errno == EPERM)) return;
  if (!file) fail_output("syncing", path, errno);
  if (::fsync(file.get()) == 0 || is_unsupported(errno) || errno == EBADF) return;
  fail_output("syncing", path, errno);
}

int rename_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (!is_unsupported(errno)) return errno;
  // NFS does not support RENAME_NOREPLACE, but creating a hard link fails if the name exists.
  if (::link(from.c_str(), to.c_str()) == 0) return ::unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno != EPERM && !is_unsupported(errno)) return errno;
  // An empty file reserves the name; only this process replaces it.
  const Descriptor reserved(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!reserved) return errno;
  if (::rename(from.c_str(), to.c_str()) == 0) return 0;
  const int error = errno;
  ::unlink(to.c_str());
  return error;
}

void rename_numbered(const fs::path& path, std::string_view reason) {
  int error = EEXIST;
  fs::path kept;
  for (int number = 1; error == EEXIST; ++number) {
    kept = fs::path(path) += fmt::format(".{}", number);
    error = rename_new(path, kept);
  }
  if (error != 0) fail_output(fmt::format("renaming {} to", path.string()), kept, error);
  sync(parent_of(kept));
  core::log_warning(
      fmt::format("{} {}; it was renamed to {}", path.string(), reason, kept.string()));
}

void write_all(const Descriptor& file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) fail_output("writing", path, errno);
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

void copy_contents(const fs::path& from, const fs::path& to) {
  const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) fail_output("reading", from, errno);
  const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!target) fail_output("writing", to, errno);
  std::vector<char> block(std::size_t{1} << 20);
  while (true) {
    const ssize_t count = ::read(source.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_output("reading", from, errno);
    if (count == 0) return;
    write_all(target, {block.data(), static_cast<std::size_t>(count)}, to);
  }
}

void rename_synced(const fs::path& from, const fs::path& to, OverwriteMode mode) {
  int error = 0;
  if (mode == OverwriteMode::refuse) {
    error = rename_new(from, to);
  } else if (::rename(from.c_str(), to.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) fail_output(fmt::format("renaming {} to", from.string()), to, error);
  sync(parent_of(to));
}

}  // namespace lockstep::record
