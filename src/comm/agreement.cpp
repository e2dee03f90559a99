#include "lockstep/comm/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep::comm {

namespace {

// An error is sent as the text "STATUS MESSAGE".
std::string encode(const core::Error& error) {
  return fmt::format("{} {}", static_cast<int>(error.status()), error.what());
}

[[noreturn]] void throw_decoded(const std::string& text, int speaker, int rank) {
  int status = static_cast<int>(core::ExitStatus::internal);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status);
  const auto length = static_cast<std::size_t>(end - text.data());
  throw AgreedError(static_cast<core::ExitStatus>(status),
                    text.substr(std::min(length + 1, text.size())), speaker, rank);
}

}  // namespace

void agree(Communicator& communicator, const std::optional<core::Error>& failure) {
  const auto said = communicator.all_gather(failure ? encode(*failure) : std::string{});
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (!said[rank].empty()) {
      throw_decoded(said[rank], static_cast<int>(rank), communicator.rank());
    }
  }
}

void fail_together(const Communicator& communicator, core::ExitStatus status,
                   const std::string& message) {
  constexpr int speaker = 0;
  throw AgreedError(status, message, speaker, communicator.rank());
}

}  // namespace lockstep::comm
