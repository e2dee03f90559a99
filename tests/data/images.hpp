// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns `size` random bytes, which depend only on `index`.
inline std::vector<std::uint8_t> random_bytes(std::size_t size, std::uint64_t index) {
  core::Random random(5, core::RandomStream::test, index);
  std::vector<std::uint8_t> bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.bits());
  return bytes;
}

/// Returns `samples` random images of shape `image`. The label of sample i is i mod 10.
inline LabelledImages random_content(std::size_t samples, core::ImageShape image) {
  LabelledImages content{
      .images = random_bytes(samples * static_cast<std::size_t>(image.elements()), samples),
      .labels = std::vector<std::int32_t>(samples)};
  for (std::size_t i = 0; i < samples; ++i) content.labels[i] = static_cast<std::int32_t>(i % 10);
  return content;
}

inline Dataset make_dataset(LabelledImages content, core::ImageShape image,
                            std::int64_t classes = 10) {
  return {{.name = "random", .image = image, .classes = classes}, std::move(content)};
}

inline Dataset random_dataset(std::size_t samples, core::ImageShape image) {
  return make_dataset(random_content(samples, image), image);
}

/// Runs `action` and fails the test unless it throws an `Error` with the exit status `status` whose
/// message is a single line and contains all `parts`.
template <class Action>
void expect_error(core::ExitStatus status, const std::vector<std::string>& parts, Action action) {
  try {
    action();
  } catch (const core::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.status(), status) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

}  // namespace lockstep::data
