// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helper functions for the tests of the arithmetic of the CUDA kernels. The kernels are functors
// that can also be compiled for the host; these tests run them on the host.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cuda/kernels/scalar.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::backend::cuda::kernels::test {

/// Runs a kernel for all its indices in descending order. On the device the order is undefined.
template <class Kernel>
void run_on_host(const Kernel& kernel) {
  for (std::int64_t index = kernel.count() - 1; index >= 0; --index) kernel(index);
}

/// Largest relative error of rounding a value to T.
template <class T>
constexpr double rounding = std::is_same_v<T, float>            ? 0x1p-24
                            : std::is_same_v<T, core::BFloat16> ? 0x1p-8
                                                                : 0x1p-11;

inline std::size_t size(std::int64_t elements) { return static_cast<std::size_t>(elements); }

/// Returns normally distributed values with mean `mean` and standard deviation `deviation`, rounded
/// to T.
template <class T>
std::vector<T> random_values(std::int64_t elements, std::uint64_t seed, float mean = 0,
                             float deviation = 1) {
  core::Random random(seed, core::RandomStream::test);
  std::vector<T> values(size(elements));
  for (T& value : values) narrow(mean + deviation * random.normal(), value);
  return values;
}

/// Returns an output array filled with NaN, so that elements that a kernel does not write are
/// detected.
template <class T>
std::vector<T> poisoned(std::int64_t elements) {
  std::vector<T> values(size(elements));
  for (T& value : values) narrow(std::numeric_limits<float>::quiet_NaN(), value);
  return values;
}

template <class T>
std::vector<double> as_double(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& value : values) result.push_back(static_cast<double>(widen(value)));
  return result;
}

/// Expects that each value differs from `want` by at most one rounding to T plus 1e-5 `magnitude`.
/// `magnitude`: size of the sums from which the value is computed; float32 sums of some hundred
/// terms are accurate to five digits of it.
template <class T>
void expect_close(const std::vector<T>& got, const std::vector<double>& want,
                  double magnitude = 1) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto value = static_cast<double>(widen(got[i]));
    const double limit = rounding<T> * std::abs(want[i]) + 1e-5 * magnitude;
    // EXPECT_NEAR would accept two infinities, and its message would not contain the index.
    if (!(std::abs(value - want[i]) <= limit)) {
      FAIL() << "element " << i << ": " << value << ", not " << want[i] << " (within " << limit
             << ")";
    }
  }
}

template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(widen(got[i]) == widen(want[i]))) {
      FAIL() << "element " << i << ": " << widen(got[i]) << ", not " << widen(want[i]);
    }
  }
}

using ActivationTypes = ::testing::Types<float, core::BFloat16, Float16>;

struct ActivationTypeNames {
  template <class T>
  static std::string GetName(int) {
    if (std::is_same_v<T, float>) return "float32";
    return std::is_same_v<T, core::BFloat16> ? "bfloat16" : "float16";
  }
};

}  // namespace lockstep::backend::cuda::kernels::test
