#include "lockstep/core/process/system.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep::core {
namespace {

TEST(System, ReturnsHostProcessorsAndMemory) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(host_name(), host);
  EXPECT_NE(cpu_model(), "");
  // MemTotal does not include the memory that the kernel reserves, which is less than a quarter of
  // the physical memory.
  const auto physical =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  EXPECT_NEAR(static_cast<double>(installed_memory()), physical, physical / 4);
  EXPECT_GT(available_host_memory().value_or(0), 0U);
  EXPECT_LE(available_host_memory().value_or(0), installed_memory());
}

TEST(ResidentMemory, GrowsWithTheMemoryThatIsWritten) {
  const ResidentMemory before = resident_memory();
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const std::vector<char> written(bytes, 1);
  const ResidentMemory after = resident_memory();
  // Only half of the growth is required, because other memory may be released at the same time.
  EXPECT_GT(after.now, before.now + bytes / 2) << written.size();
  EXPECT_GE(after.peak, after.now);
}

/// Reads a file that --file names, of at most `most` bytes; returns its contents or the error.
std::string read_file(const std::string& path, std::size_t most = most_bytes_of_parameters) {
  try {
    return read_option_file("--file", path, ExitStatus::input, most);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::input);
    return error.what();
  }
}

/// Reads five bytes from a pipe.
std::string read_pipe(std::size_t most) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  EXPECT_EQ(::write(pipe[1], "12345", 5), 5);
  ::close(pipe[1]);
  const std::string text = read_file("/proc/self/fd/" + std::to_string(pipe[0]), most);
  ::close(pipe[0]);
  return text;
}

TEST(System, FilesOfOptionsAreReadUpToALimit) {
  EXPECT_EQ(read_pipe(5), "12345");
  EXPECT_THAT(read_pipe(4), testing::HasSubstr("has more than 4 B"));
  EXPECT_EQ(read_file("/dev/null"), "");
  EXPECT_EQ(read_file("/dev/zero"), "--file /dev/zero: has more than 1.00 MB; name a smaller file");
  EXPECT_EQ(
      read_file("/no/such"),
      "--file /no/such: cannot be read (there is no such file, or no permission); check the path");
  EXPECT_EQ(read_file("/"), "--file /: cannot be read (a folder); check the path");
}

TEST(System, CacheDirectoryFollowsTheEnvironment) {
  ::setenv("LOCKSTEP_CACHE_DIR", "/some/where", 1);
  EXPECT_EQ(cache_directory(), "/some/where");
  ::setenv("LOCKSTEP_CACHE_DIR", "", 1);
  EXPECT_TRUE(cache_directory().empty());
  ::unsetenv("LOCKSTEP_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_directory(), "/x/lockstep");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(cache_directory(), "/h/.cache/lockstep");
}

}  // namespace
}  // namespace lockstep::core
