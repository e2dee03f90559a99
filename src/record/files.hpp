#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "lockstep/core/handle.hpp"

// What HDF5 leaves to us: syncing, renaming without loss, and knowing whether a file is in use.
namespace lockstep::record {

struct DescriptorTraits {
  using type = int;
  static type null() noexcept { return -1; }
  static void close(type descriptor) noexcept;
};
using Descriptor = core::Handle<DescriptorTraits>;

/// "DOING PATH failed (REASON); ADVICE that fits the reason" as an `Error` (output).
[[noreturn]] void fail_output(const std::string& doing, const std::filesystem::path& path,
                              int error_number);
[[noreturn]] void fail_output(const std::string& doing, const std::filesystem::path& path,
                              const std::string& reason, int error_number);

/// PATH.partial, under which a run file is written until it is complete.
std::filesystem::path partial_path(std::filesystem::path path);

/// The directory a file stands in: "." for a bare name.
std::filesystem::path parent_of(const std::filesystem::path& path);

/// Throws `Error` (output) unless the directory of `path` exists, its name leaves space for the
/// endings of temporary files, and `path` is no directory.
void require_place(const std::filesystem::path& path);

/// Creates the file, which must not exist, and locks it (shared) until the descriptor closes. Two
/// processes that do so at the same time cannot both succeed. On a file system without locks the
/// file is created but not locked. Throws `Error` (output).
Descriptor create_in_use(const std::filesystem::path& path);

enum class Use {
  missing,  ///< there is no such file
  stale,    ///< no living process has it locked
  in_use,   ///< a living process writes or reads it
  unknown,  ///< the file system has no locks
};

/// A file and, if it is stale, an exclusive lock on it: until `lock` closes, no other process can
/// take it for stale, and `create_in_use` in another process waits.
struct ExistingFile {
  Use use = Use::missing;
  Descriptor lock;
  std::size_t bytes = 0;
};

/// Finds out whether a file is in use. Throws `Error` (output) if it is not a regular file or
/// cannot be opened.
ExistingFile lock_if_stale(const std::filesystem::path& path);

/// Deletes a temporary file that no living process has in use. On a file system without locks, only
/// a file that was not written to for an hour.
void remove_if_stale(const std::filesystem::path& path);

/// Makes the file `bytes` longer on the disk, so that writing as much cannot meet a full disk
/// later. Throws `Error` (output) and leaves the file as it was where there is no room.
void reserve(const Descriptor& file, std::size_t bytes, const std::filesystem::path& path);

/// Waits until the file's content is on the disk, if the file system can say so (some FUSE and CIFS
/// mounts cannot: fsync fails with EINVAL). Throws `Error` (output).
void sync(const std::filesystem::path& path);

/// The same for the entries of a directory.
void sync_directory(const std::filesystem::path& path);

enum class Target { may_exist, must_not_exist };

/// Renames without replacing another file, if possible in one step. Returns 0 or the error number.
int rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames the file to NAME.1 (.2, ...), the first name that is free, and syncs the directory.
/// Returns the new name. Throws `Error` (output).
std::filesystem::path rename_numbered(const std::filesystem::path& path);

/// Renames within one directory, and syncs the directory. Throws `Error` (output).
void rename_synced(const std::filesystem::path& from, const std::filesystem::path& to,
                   Target target);

}  // namespace lockstep::record
