// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/handle.hpp"

// Wrappers for the part of the HDF5 C API that Lockstep uses, with RAII handles and checked
// return values.
namespace lockstep::core::hdf5 {

/// Gives the calling thread exclusive use of the HDF5 library until the lock is destroyed, because
/// the serial library is not thread-safe. Blocks while another thread uses it. A thread may have
/// several locks. An open `File` has one, `check` refuses a call without one, and handles take one
/// when they close an object, so callers need none of their own.
class LibraryLock {
 public:
  LibraryLock() noexcept;
  ~LibraryLock();
  LibraryLock(LibraryLock&& other) noexcept : is_held_(std::exchange(other.is_held_, false)) {}
  LibraryLock& operator=(LibraryLock&&) = delete;

 private:
  bool is_held_ = true;
};

/// Notes that HDF5 could not close an object, which may have had data that were not written yet,
/// for the next `close` of a file.
void note_close_failure() noexcept;

template <herr_t (*close_id)(hid_t)>
struct IdTraits {
  using type = hid_t;
  static type null() noexcept { return H5I_INVALID_HID; }
  static void close(type id) noexcept {
    const LibraryLock lock;
    if (close_id(id) < 0) note_close_failure();
  }
};
/// An object of any kind: group, dataset or named datatype.
using Object = Handle<IdTraits<H5Oclose>>;
using Group = Handle<IdTraits<H5Gclose>>;
using Dataset = Handle<IdTraits<H5Dclose>>;
using Space = Handle<IdTraits<H5Sclose>>;
using Type = Handle<IdTraits<H5Tclose>>;
using Attribute = Handle<IdTraits<H5Aclose>>;
using Properties = Handle<IdTraits<H5Pclose>>;

/// An open file. It must be closed by the thread that opened it.
class File {
 public:
  /// Takes ownership of `id`. Throws `Failure` if `id` is negative.
  File(LibraryLock lock, hid_t id, const char* what);

  hid_t get() const noexcept { return handle_.get(); }
  /// Returns the identifier and gives up ownership; the caller must close it.
  hid_t release() noexcept { return handle_.release(); }

 private:
  LibraryLock lock_;
  Handle<IdTraits<H5Fclose>> handle_;
};

/// Failure of an HDF5 call. The message has the operation and the cause that HDF5 reports; callers
/// add the path.
class Failure : public std::runtime_error {
 public:
  Failure(const std::string& what, int error_number)
      : std::runtime_error(what), error_number_(error_number) {}
  /// Returns the errno value, or 0 if HDF5 reports none.
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

/// Throws `Failure` if `result` is negative. `what`: the operation, for the message. Throws `Error`
/// (internal) if the calling thread has no `LibraryLock`.
void check(herr_t result, const char* what);
/// Returns a handle that owns `id`. Throws `Failure` if `id` is negative.
template <class Id>
Id own(hid_t id, const char* what) {
  check(id < 0 ? -1 : 0, what);
  return Id(id);
}

/// Returns the version of the HDF5 library, for example "1.10.8", or "unknown".
std::string version();

/// Closes the file. Throws `Failure` if this fails, or if closing an object has failed since the
/// file was opened, because buffered data may then be missing in the file.
void close(File file);

/// Calls `read`, which reads the file `path`. Throws `Error` (input), "cannot read PATH (WHY);
/// ADVICE", if it is not a regular file, is of another kind than HDF5, or `read` throws `Failure`.
/// `advice`: returns what to do about a file of this kind (`core::file_kind`).
void reading(const std::filesystem::path& path,
             const std::function<std::string(std::string_view kind)>& advice,
             const std::function<void()>& read);

/// File access: `read`: read only; `read_while_written`: SWMR reader; `append`: SWMR writer;
/// `modify`: read and write.
enum class Access { read, read_while_written, append, modify };
/// Creates the file, or truncates an existing one. HDF5 1.10 and newer can read it. Throws
/// `Failure`.
File create_file(const std::filesystem::path& path);
/// Opens an existing file. Throws `Failure`.
File open_file(const std::filesystem::path& path, Access access);

/// Returns a new property list of the class `kind`, for example H5P_FILE_ACCESS.
Properties properties(hid_t kind);
/// Returns a new creation property list without object timestamps, so that files with equal
/// contents are identical. Links and attributes are stored in the object itself, however many they
/// are: HDF5 1.10 can crash if the heaps in which it stores many of them by default are damaged.
Properties creation_properties(hid_t kind);
/// Creates the group `path` and returns it. Throws `Failure`.
Group new_group(const File& file, const std::string& path);
/// Returns the type of UTF-8 strings with a fixed length of `bytes` bytes, padded with zeros.
Type fixed_text_type(std::size_t bytes);
/// Returns the shape of the dataset.
std::vector<hsize_t> extents(const Dataset& dataset);
/// Returns the class of the type of the elements.
H5T_class_t type_class(const Dataset& dataset);
/// Returns whether the elements have one of these types.
bool has_type(const Dataset& dataset, hid_t little_endian, hid_t big_endian);
/// Throws `Failure` unless the dataset is contiguous, chunked or compact, with no filters except
/// deflate, shuffle and Fletcher-32. Other storage could make HDF5 read other files or load
/// plug-ins. `path`: for the message.
void require_plain_storage(const Dataset& dataset, const std::string& path);
/// Reads all elements, converted to the type `memory`, to `values`. Throws `Failure`.
void read_all(const Dataset& dataset, hid_t memory, void* values);
/// Returns a selection of `count` rows from `first`. The dataset has at least one dimension.
Space select_rows(const Dataset& dataset, hsize_t first, hsize_t count);
/// Reads `count` rows from `first` as `read_all` does.
void read_rows(const Dataset& dataset, hid_t memory, hsize_t first, hsize_t count, void* values);

/// Creates an attribute, or replaces an existing one. Texts have a fixed length and are stored in
/// the object itself, which the checksums of the file format cover. Variable-length texts are
/// stored in a heap without checksums, and HDF5 1.10 can crash if that heap is damaged.
void set_attribute(hid_t object, const std::string& name, const std::string& value);
void set_attribute(hid_t object, const std::string& name, std::int64_t value);
void set_attribute(hid_t object, const std::string& name, double value);

struct Link {
  std::string name;
  bool hard = false;  ///< false for soft and external links
};
/// Returns the links of a group, sorted by name.
std::vector<Link> links(hid_t group);
/// Opens the object of a hard link in a group. Throws `Failure` if its data are in other files:
/// HDF5 1.10 reads past the end of a damaged list of these files when it opens the object.
Object open_object(hid_t group, const std::string& name);
/// Returns the names of the attributes of an object, sorted.
std::vector<std::string> attribute_names(hid_t object);

/// Returns a text attribute; nothing if it is not a single text of fixed length with at most
/// `bytes_at_most` bytes. HDF5 1.10 can crash when it reads a damaged text of variable length.
/// Throws `Failure` if the attribute is missing.
std::optional<std::string> find_text_attribute(hid_t object, const char* name,
                                               std::size_t bytes_at_most);
/// Returns the same. Throws `Failure` also if the attribute has another type or is longer.
std::string text_attribute(hid_t object, const char* name, std::size_t bytes_at_most = 4096);

/// Returns an integer attribute; nothing if it is not a single integer. Throws `Failure` if it is
/// missing.
std::optional<std::int64_t> integer_attribute(hid_t object, const char* name);

/// Returns a text attribute of a group of a file, which another process may be writing. Returns an
/// empty text if there is no such file, group or attribute.
std::string text_attribute_of(const std::filesystem::path& path, const char* group,
                              const char* name);

/// Returns whether the object has the attribute.
bool has_attribute(hid_t object, const char* name);

}  // namespace lockstep::core::hdf5
