#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

std::string text(int error_number) { return std::generic_category().message(error_number); }

std::string advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return "free some space or choose another file system";
    case EFBIG: return "raise the limit on file sizes (ulimit -f) or write less";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a place where you may write";
    case ENOENT: return "create the directory with mkdir -p";
    default: return "look at the file system or choose another place";
  }
}

}  // namespace

void DescriptorTraits::close(type descriptor) noexcept {
  if (::close(descriptor) != 0) core::log_warning("closing a file failed");
}

void fail_output(const std::string& doing, const fs::path& path, int error_number) {
  fail_output(doing, path, text(error_number), error_number);
}

void fail_output(const std::string& doing, const fs::path& path, const std::string& reason,
                 int error_number) {
  core::fail(core::ExitStatus::output, fmt::format("{} {} failed ({}); {}", doing, path.string(),
                                                   reason, advice(error_number)));
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void require_place(const fs::path& path) {
  std::error_code ignored;
  const fs::path parent = parent_of(path);
  if (!fs::exists(parent, ignored)) {
    core::fail(core::ExitStatus::output,
               fmt::format("cannot write {} (there is no directory {}); create it with mkdir -p {}",
                           path.string(), parent.string(), parent.string()));
  }
  if (!fs::is_directory(parent, ignored)) {
    core::fail(core::ExitStatus::output,
               fmt::format("cannot write {} ({} is not a directory); choose another place",
                           path.string(), parent.string()));
  }
  if (fs::is_directory(path, ignored) || !path.has_filename()) {
    core::fail(
        core::ExitStatus::output,
        fmt::format("cannot write {} (it is a directory); give the name of a file", path.string()));
  }
}

Descriptor create_in_use(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) fail_output("creating", path, errno);
  // A shared lock: readers, HDF5's among them, lock shared too and stay welcome.
  if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail_output("creating", path, "another process took it", EWOULDBLOCK);
  }
  return file;
}

bool in_use(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void reserve(const Descriptor& file, std::size_t bytes, const fs::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_output("extending", path, errno);
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file.get(), status.st_size, static_cast<off_t>(bytes));
  }
  // Where a file system cannot reserve, the writes themselves will tell.
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL) return;
  if (::ftruncate(file.get(), status.st_size) != 0) core::log_warning("shortening a file failed");
  fail_output("extending", path, error);
}

void sync(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) fail_output("syncing", path, errno);
}

void rename_synced(const fs::path& from, const fs::path& to, Target target) {
  int failed = 0;
  if (target == Target::must_not_exist) {
    failed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    // Some network file systems know no such rename: look first, then.
    if (failed != 0 && (errno == EINVAL || errno == ENOSYS) && !fs::exists(to)) {
      failed = ::rename(from.c_str(), to.c_str());
    }
  } else {
    failed = ::rename(from.c_str(), to.c_str());
  }
  if (failed != 0) fail_output(fmt::format("renaming {} to", from.string()), to, errno);
  sync(parent_of(to));
}

}  // namespace lockstep::record
