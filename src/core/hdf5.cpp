// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/hdf5.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <system_error>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_kind.hpp"

namespace lockstep::core::hdf5 {

namespace {

std::recursive_mutex library;
/// Number of locks that the calling thread has.
thread_local int locks = 0;

// Configures the HDF5 library. HDF5 must not print errors, because this program reports them. It
// must not load filter plug-ins, because a file could then make it execute other code. The
// environment must not enable the file locks that `file_access` disables: the error would say that
// a file cannot be opened. Its clean-up at exit is disabled, because it can crash after a full disk
// and all objects are closed explicitly; this must precede any other call, which would install the
// clean-up.
void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::unsetenv("HDF5_USE_FILE_LOCKING");
    H5dont_atexit();
    H5PLset_loading_state(0);
  });
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

struct Cause {
  std::string text;  ///< empty if HDF5 gives none
  int error_number = 0;
};

/// Callback of H5Ewalk2. It is called from the outermost to the innermost entry of the error stack;
/// the innermost entry is the most specific.
herr_t note_cause(unsigned, const H5E_error2_t* error, void* data) {
  auto& cause = *static_cast<Cause*>(data);
  const std::string description = error->desc ? error->desc : "";
  const std::string marker = "errno = ";
  if (const auto at = description.find(marker); at != std::string::npos) {
    cause.error_number = std::atoi(description.c_str() + at + marker.size());
    cause.text = std::generic_category().message(cause.error_number);
  } else if (cause.error_number == 0 && !description.empty()) {
    cause.text = description;
  }
  return 0;
}

/// Returns the cause of the failure of the last call.
Cause last_cause() {
  Cause cause;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, note_cause, &cause);
  return cause;
}

[[noreturn]] void fail(const char* what, const Cause& cause) {
  const char* text = cause.text.empty() ? "HDF5 gives no reason" : cause.text.c_str();
  throw Failure(fmt::format("{}: {}", what, text), cause.error_number);
}

/// The first failure to close an object since a file was opened. Only the thread with the lock uses
/// it.
std::optional<Cause> close_failure;

Properties file_access() {
  Properties access = properties(H5P_FILE_ACCESS);
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110),
        "setting the file format");
  // After each failed attempt a SWMR reader waits twice as long, from 1 ns on. The default of 100
  // attempts never ends if the file is damaged; 24 attempts take 17 ms.
  check(H5Pset_metadata_read_attempts(access.get(), 24), "limiting the attempts to read");
  // Many cluster file systems do not support HDF5's locks. The locks of record/files.hpp
  // exclude concurrent writers instead.
  check(H5Pset_file_locking(access.get(), false, true), "disabling file locking");
  return access;
}

void set_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  if (has_attribute(object, name.c_str())) {
    check(H5Adelete(object, name.c_str()), "replacing an attribute");
  }
  const auto space = own<Space>(H5Screate(H5S_SCALAR), "creating the shape of an attribute");
  const auto attribute =
      own<Attribute>(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                     "creating an attribute");
  check(H5Awrite(attribute.get(), type, value), "writing an attribute");
}

}  // namespace

LibraryLock::LibraryLock() noexcept {
  library.lock();
  ++locks;
  prepare();
}

LibraryLock::~LibraryLock() {
  if (!is_held_) return;
  --locks;
  library.unlock();
}

File::File(LibraryLock lock, hid_t id, const char* what) : lock_(std::move(lock)), handle_(id) {
  check(id < 0 ? -1 : 0, what);
  close_failure.reset();
}

void note_close_failure() noexcept {
  if (close_failure) return;
  close_failure.emplace();
  try {
    close_failure = last_cause();
  } catch (...) {  // without memory for the text, the failure is noted all the same
  }
}

void check(herr_t result, const char* what) {
  core::check(locks > 0, "HDF5 is used without its lock");
  if (result < 0) fail(what, last_cause());
}

std::string version() {
  const LibraryLock lock;
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return fmt::format("{}.{}.{}", major, minor, release);
}

void close(File file) {
  check(H5Fclose(file.release()), "closing the file");
  if (close_failure) fail("closing an object", *close_failure);
}

void reading(const std::filesystem::path& path,
             const std::function<std::string(std::string_view)>& advice,
             const std::function<void()>& read) {
  const std::string_view kind = file_kind(path);
  const auto fail_input = [&](const std::string& why) {
    const std::string_view common = advice_for_all_readers(kind);
    const std::string remedy = common.empty() ? advice(kind) : std::string(common);
    const bool may_be_newer = why.find("version number") != std::string::npos;
    const std::string cause =
        may_be_newer
            ? fmt::format(": damaged, or written in the format of a newer HDF5 than {}", version())
            : "";
    core::fail(ExitStatus::input,
               fmt::format("cannot read {} ({}{}); {}", path.string(), why, cause, remedy));
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none) fail_input(error.message());
  if (!std::filesystem::exists(status)) fail_input("there is no such file");
  // HDF5 itself reports files that are damaged or not accessible.
  if (kind != hdf5_kind && kind != unknown_kind && kind != "no file") {
    fail_input(fmt::format("it is {}, not an HDF5 file", kind));
  }
  try {
    read();
  } catch (const Failure& failure) {
    fail_input(failure.what());
  } catch (const std::filesystem::filesystem_error& failure) {
    fail_input(failure.code().message());
  }
}

File create_file(const std::filesystem::path& path) {
  LibraryLock lock;
  const Properties access = file_access();
  const Properties creation = creation_properties(H5P_FILE_CREATE);
  return File(std::move(lock), H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
              "creating the file");
}

File open_file(const std::filesystem::path& path, Access access) {
  LibraryLock lock;
  unsigned flags = H5F_ACC_RDONLY;
  if (access == Access::read_while_written) flags = H5F_ACC_RDONLY | H5F_ACC_SWMR_READ;
  if (access == Access::append) flags = H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE;
  if (access == Access::modify) flags = H5F_ACC_RDWR;
  const Properties list = file_access();
  return File(std::move(lock), H5Fopen(path.c_str(), flags, list.get()), "opening the file");
}

Properties properties(hid_t kind) {
  return own<Properties>(H5Pcreate(kind), "creating a property list");
}

Properties creation_properties(hid_t kind) {
  Properties list = properties(kind);
  check(H5Pset_obj_track_times(list.get(), false), "disabling object timestamps");
  constexpr unsigned all = 65535;
  check(H5Pset_attr_phase_change(list.get(), all, 0), "storing attributes in the object");
  if (H5Pisa_class(list.get(), H5P_GROUP_CREATE) > 0) {
    check(H5Pset_link_phase_change(list.get(), all, 0), "storing links in the group");
  }
  return list;
}

Type fixed_text_type(std::size_t bytes) {
  auto type = own<Type>(H5Tcopy(H5T_C_S1), "creating a string type");
  check(H5Tset_size(type.get(), bytes), "creating a string type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "creating a string type");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "creating a string type");
  return type;
}

Group new_group(const File& file, const std::string& path) {
  const Properties creation = creation_properties(H5P_GROUP_CREATE);
  return own<Group>(H5Gcreate2(file.get(), path.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                    "creating a group");
}

std::vector<hsize_t> extents(const Dataset& dataset) {
  const auto space = own<Space>(H5Dget_space(dataset.get()), "reading a shape");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  check(rank, "reading a shape");
  std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr), "reading a shape");
  return shape;
}

H5T_class_t type_class(const Dataset& dataset) {
  return H5Tget_class(own<Type>(H5Dget_type(dataset.get()), "reading a type").get());
}

bool has_type(const Dataset& dataset, hid_t little_endian, hid_t big_endian) {
  const auto type = own<Type>(H5Dget_type(dataset.get()), "reading a type");
  return H5Tequal(type.get(), little_endian) > 0 || H5Tequal(type.get(), big_endian) > 0;
}

void require_plain_storage(const Dataset& dataset, const std::string& path) {
  const auto creation =
      own<Properties>(H5Dget_create_plist(dataset.get()), "reading a storage layout");
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  bool is_plain = layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED || layout == H5D_COMPACT;
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t parameters = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags,
                                               &parameters, nullptr, 0, nullptr, nullptr);
    is_plain = is_plain && (filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE ||
                            filter == H5Z_FILTER_FLETCHER32);
  }
  if (!is_plain || filters < 0)
    throw Failure(path + " is stored in a way that is not read here", 0);
}

void read_all(const Dataset& dataset, hid_t memory, void* values) {
  check(H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "reading values");
}

Space select_rows(const Dataset& dataset, hsize_t first, hsize_t count) {
  std::vector<hsize_t> block = extents(dataset), start(block.size());
  start.front() = first;
  block.front() = count;
  auto rows = own<Space>(H5Dget_space(dataset.get()), "reading a shape");
  check(
      H5Sselect_hyperslab(rows.get(), H5S_SELECT_SET, start.data(), nullptr, block.data(), nullptr),
      "selecting rows");
  return rows;
}

void read_rows(const Dataset& dataset, hid_t memory, hsize_t first, hsize_t count, void* values) {
  const Space rows = select_rows(dataset, first, count);
  const auto elements = static_cast<hsize_t>(H5Sget_select_npoints(rows.get()));
  const auto target = own<Space>(H5Screate_simple(1, &elements, nullptr), "describing rows");
  check(H5Dread(dataset.get(), memory, target.get(), rows.get(), H5P_DEFAULT, values),
        "reading rows");
}

void set_attribute(hid_t object, const std::string& name, const std::string& value) {
  // HDF5 has no strings of length 0; the additional byte is padding.
  set_attribute(object, name, fixed_text_type(std::max<std::size_t>(value.size(), 1)).get(),
                value.c_str());
}

void set_attribute(hid_t object, const std::string& name, std::int64_t value) {
  set_attribute(object, name, H5T_NATIVE_INT64, &value);
}

void set_attribute(hid_t object, const std::string& name, double value) {
  set_attribute(object, name, H5T_NATIVE_DOUBLE, &value);
}

// The C library calls these callbacks, so they must not throw exceptions.
std::vector<Link> links(hid_t group) {
  std::vector<Link> found;
  const auto note = [](hid_t, const char* name, const H5L_info_t* info, void* names) {
    try {
      static_cast<std::vector<Link>*>(names)->push_back({name, info->type == H5L_TYPE_HARD});
      return herr_t{0};
    } catch (...) {
      return herr_t{-1};
    }
  };
  check(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &found), "listing a group");
  std::ranges::sort(found, {}, &Link::name);
  return found;
}

Object open_object(hid_t group, const std::string& name) {
  // Message type "external data files" of an object header; the information does not decode it.
  constexpr unsigned external_files = 7;
#if H5_VERSION_GE(1, 12, 0)
  H5O_native_info_t info;
  const herr_t found =
      H5Oget_native_info_by_name(group, name.c_str(), &info, H5O_NATIVE_INFO_HDR, H5P_DEFAULT);
#else
  H5O_info_t info;
  const herr_t found = H5Oget_info_by_name2(group, name.c_str(), &info, H5O_INFO_HDR, H5P_DEFAULT);
#endif
  check(found, "reading the header of an object");
  if ((info.hdr.mesg.present >> external_files & 1) != 0)
    throw Failure(name + " is stored in other files", 0);
  return own<Object>(H5Oopen(group, name.c_str(), H5P_DEFAULT), "opening an object");
}

std::vector<std::string> attribute_names(hid_t object) {
  std::vector<std::string> found;
  const auto note = [](hid_t, const char* name, const H5A_info_t*, void* names) {
    try {
      static_cast<std::vector<std::string>*>(names)->push_back(name);
      return herr_t{0};
    } catch (...) {
      return herr_t{-1};
    }
  };
  check(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &found),
        "listing attributes");
  std::sort(found.begin(), found.end());
  return found;
}

bool has_attribute(hid_t object, const char* name) {
  const htri_t exists = H5Aexists(object, name);
  check(exists < 0 ? -1 : 0, "checking for an attribute");
  return exists > 0;
}

std::optional<std::string> find_text_attribute(hid_t object, const char* name,
                                               std::size_t bytes_at_most) {
  const auto attribute = own<Attribute>(H5Aopen(object, name, H5P_DEFAULT), "opening an attribute");
  const auto type = own<Type>(H5Aget_type(attribute.get()), "reading the type of an attribute");
  const auto space = own<Space>(H5Aget_space(attribute.get()), "reading the shape of an attribute");
  const std::size_t bytes = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
      H5Sget_simple_extent_npoints(space.get()) != 1 || bytes > bytes_at_most) {
    return {};
  }
  std::string value(bytes, '\0');
  check(H5Aread(attribute.get(), type.get(), value.data()), "reading an attribute");
  return value.substr(0, value.find('\0'));
}

std::string text_attribute(hid_t object, const char* name, std::size_t bytes_at_most) {
  const auto value = find_text_attribute(object, name, bytes_at_most);
  if (!value) throw Failure(fmt::format("the attribute {} is not a text of fixed length", name), 0);
  return *value;
}

std::optional<std::int64_t> integer_attribute(hid_t object, const char* name) {
  const auto attribute = own<Attribute>(H5Aopen(object, name, H5P_DEFAULT), "opening an attribute");
  const auto type = own<Type>(H5Aget_type(attribute.get()), "reading the type of an attribute");
  const auto space = own<Space>(H5Aget_space(attribute.get()), "reading the shape of an attribute");
  if (H5Tget_class(type.get()) != H5T_INTEGER || H5Sget_simple_extent_npoints(space.get()) != 1)
    return {};
  std::int64_t value = 0;
  check(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), "reading an attribute");
  return value;
}

std::string text_attribute_of(const std::filesystem::path& path, const char* group,
                              const char* name) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  // If the writer was killed during an append, the file can only be opened as a SWMR reader.
  for (const auto access : {Access::read, Access::read_while_written}) {
    try {
      const File file = open_file(path, access);
      const auto object = own<Group>(H5Gopen2(file.get(), group, H5P_DEFAULT), "opening a group");
      return text_attribute(object.get(), name);
    } catch (const Failure&) {
      continue;
    }
  }
  return {};
}

}  // namespace lockstep::core::hdf5
