#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/core/handle.hpp"

// The part of HDF5's C API that this room uses, with owned ids and checked returns.
namespace lockstep::record::hdf5 {

void log_close_failure() noexcept;

template <herr_t (*close_id)(hid_t)>
struct IdTraits {
  using type = hid_t;
  static type null() noexcept { return H5I_INVALID_HID; }
  static void close(type id) noexcept {
    if (close_id(id) < 0) log_close_failure();
  }
};
/// An object of a kind not yet known.
using Object = core::Handle<IdTraits<H5Oclose>>;
using File = core::Handle<IdTraits<H5Fclose>>;
using Group = core::Handle<IdTraits<H5Gclose>>;
using Dataset = core::Handle<IdTraits<H5Dclose>>;
using Space = core::Handle<IdTraits<H5Sclose>>;
using Type = core::Handle<IdTraits<H5Tclose>>;
using Attribute = core::Handle<IdTraits<H5Aclose>>;
using Properties = core::Handle<IdTraits<H5Pclose>>;

/// A call of HDF5 that failed: what, and the cause that HDF5 names. Callers add the path.
class Failure : public std::runtime_error {
 public:
  Failure(const std::string& what, int error_number)
      : std::runtime_error(what), error_number_(error_number) {}
  /// The system's errno, 0 where HDF5 names none.
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

/// Throws `Failure` where HDF5 returned a negative value, else gives the value back.
void check(herr_t result, const char* what);
template <class Id>
Id own(hid_t id, const char* what) {
  check(id < 0 ? -1 : 0, what);
  return Id(id);
}

/// Version of the library: "1.10.8".
std::string version();

/// Closes now, and throws `Failure` where that fails: what was buffered may not be in the file.
void close(File file);

/// Runs `work`; a `Failure` in it becomes an `Error` (output) with the path.
void writing(const std::filesystem::path& path, const std::function<void()>& work);

enum class Access { read, read_while_written, append, modify };
/// Truncates. Files can be read by HDF5 1.10 and newer.
File create_file(const std::filesystem::path& path);
File open_file(const std::filesystem::path& path, Access access);

Properties properties(hid_t kind);
/// The same without times of creation: equal contents make equal files.
Properties creation_properties(hid_t kind);
/// UTF-8 text of any length.
Type text_type();
/// UTF-8 text of at most `bytes` bytes, padded with zeros.
Type fixed_text_type(std::size_t bytes);
std::vector<hsize_t> extents(const Dataset& dataset);

/// Sets an attribute, whether it was there or not.
void set_attribute(hid_t object, const std::string& name, const std::string& value);
void set_attribute(hid_t object, const std::string& name, std::int64_t value);
void set_attribute(hid_t object, const std::string& name, double value);

struct Link {
  std::string name;
  bool hard = false;  ///< not a pointer to another place or file
};
/// In the order of their names.
std::vector<Link> links(hid_t group);
std::vector<std::string> attribute_names(hid_t object);

/// A text that lies in the object itself, where the format's checksums reach; texts of any length
/// lie in a heap without them, and HDF5 1.10 can crash on a damaged heap.
void set_plain_text(hid_t object, const std::string& name, const std::string& value);
/// Reads such a text of at most `bytes_at_most` bytes; throws `Failure` where it is another thing.
std::string plain_text(hid_t object, const char* name, std::size_t bytes_at_most);

bool has_attribute(hid_t object, const char* name);
/// The text of an attribute; throws `Failure` where it is no text.
std::string text_attribute(hid_t object, const char* name);

}  // namespace lockstep::record::hdf5
