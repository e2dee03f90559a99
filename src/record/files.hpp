// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/core/handle.hpp"
#include "lockstep/core/hdf5.hpp"
#include "lockstep/record/output_kind.hpp"

// File operations that HDF5 does not provide: syncing to disk, renaming without losing another
// file, and finding out whether a process uses a file.
namespace lockstep::record {

namespace hdf5 = core::hdf5;
using core::Descriptor;

/// Throws `Error` (output) with the message "DOING PATH failed (REASON); ADVICE". The advice
/// depends on `error_number` (an errno value); if `reason` is empty, so does the reason.
[[noreturn]] void fail_output(const std::string& doing, const std::filesystem::path& path,
                              int error_number, std::string reason = {});

/// Calls `work`. If it throws `hdf5::Failure`, throws `Error` (output) with the path.
void writing(const std::filesystem::path& path, const std::function<void()>& work);

/// Returns PATH.partial, the name of a run file until it is complete.
std::filesystem::path partial_path(std::filesystem::path path);

/// Return the names under which the file that will replace `partial`, or the complete run file, is
/// written.
std::filesystem::path creating_path(std::filesystem::path partial);
std::filesystem::path finishing_path(std::filesystem::path partial);

/// Calls `write` with a new file in the directory of `path`, which it must sync, then renames that
/// file to `path`. If an error is thrown, deletes the new file and does not change `path`. Throws
/// `Error` (output).
void write_and_rename(
    const std::filesystem::path& path, OverwriteMode mode,
    const std::function<void(const std::filesystem::path&, const Descriptor&)>& write);

/// Returns the directory that contains `path`; "." if `path` is only a file name.
std::filesystem::path parent_of(const std::filesystem::path& path);

/// Throws `Error` (output) if the directory of `path` does not exist, if `path` exists and is not a
/// regular file, or if the file name is too long for the suffixes of temporary files.
void require_place(const std::filesystem::path& path);

/// Creates the file and holds a shared lock on it until the descriptor is closed. Throws `Error`
/// (output) if the file exists or cannot be created. If two processes call this at the same time,
/// at most one succeeds. On a file system without locks, the file is created but not locked.
Descriptor create_in_use(const std::filesystem::path& path);

/// Writes all of `text` to the open file `path`. Throws `Error` (output).
void write_all(const Descriptor& file, std::string_view text, const std::filesystem::path& path);

/// Copies the contents of a file, not its permissions, which some file systems do not store.
/// Replaces `to`. Throws `Error` (output).
void copy_contents(const std::filesystem::path& from, const std::filesystem::path& to);

/// Whether a process uses a file.
enum class Use {
  missing,  ///< the file does not exist
  stale,    ///< no process has a lock on the file
  in_use,   ///< a process writes or reads the file
  unknown,  ///< the file system does not support locks
};

/// State of a file and, if it is stale, an exclusive lock on it. While `lock` is open,
/// `lock_if_stale` in another process reports the file as in use, and `create_in_use` in another
/// process blocks before it returns this file.
struct ExistingFile {
  Use use = Use::missing;
  Descriptor lock;
};

/// Determines whether a process uses the file and, if none does, locks it exclusively. Does not
/// block. `create`: create the file if it is missing; it must then have one name, and `lock` is the
/// open file also if it could not be locked. The result is `missing` if the directory is not
/// writable. Throws `Error` (output) if the file is not a regular file or cannot be opened.
ExistingFile lock_if_stale(const std::filesystem::path& path, bool create = false);

/// Deletes a file. Logs a warning on failure.
void delete_file(const std::filesystem::path& path);

/// Deletes a temporary file if no process uses it. On a file system without locks, deletes it if it
/// has not been modified for an hour.
void remove_if_stale(const std::filesystem::path& path);

/// Extends the file by `bytes` and allocates them on the disk, so that writing this amount later
/// cannot fail because the disk is full. Does nothing if the file system does not support
/// allocation. Throws `Error` (output), with the file unchanged, if there is not enough space.
void reserve(const Descriptor& file, std::size_t bytes, const std::filesystem::path& path);

/// Blocks until the content of the file, or the entries of the directory, are on the disk (fsync).
/// Does nothing if the file system does not support fsync (on some FUSE and CIFS mounts it fails
/// with EINVAL), or if a directory may not be read. Throws `Error` (output) on other failures.
void sync(const std::filesystem::path& path);

/// Renames the file without replacing an existing file; atomic if the file system supports it.
/// Returns 0 or an errno value (EEXIST if `to` exists).
int rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames the file to the first unused name of NAME.1, NAME.2, ... and syncs the directory. Logs a
/// warning with `reason`, as "is from a run that ...". Throws `Error` (output) on failure.
void rename_numbered(const std::filesystem::path& path, std::string_view reason);

/// Renames the file within its directory and syncs the directory. Throws `Error` (output) on
/// failure, also if `to` exists and `mode` is refuse.
void rename_synced(const std::filesystem::path& from, const std::filesystem::path& to,
                   OverwriteMode mode);

/// Throws `Error` (output) if there can be no file at `path`, or if a file exists there and `mode`
/// does not permit to replace it by one of this kind.
void refuse_existing(const std::filesystem::path& path, OverwriteMode mode, OutputKind kind);

/// Renames the file `partial` that a run left when it ended early, so that it is kept. Deletes it
/// if it is empty, and the temporary files beside it. Throws `Error` (output) if a process uses the
/// file or the file system has no locks.
void keep_stale(const std::filesystem::path& partial);

}  // namespace lockstep::record
