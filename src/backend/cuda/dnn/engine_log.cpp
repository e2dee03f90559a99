// SPDX-License-Identifier: BSD-3-Clause
#include "engine_log.hpp"

#include <fmt/format.h>

#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

EngineLog::EngineLog(const std::filesystem::path& file) {
  if (file.empty()) return;
  stream_.open(file, std::ios::trunc);
  if (!stream_)
    core::fail(core::ExitStatus::output,
               fmt::format("--engine-log: {} cannot be written; name a file in an existing folder "
                           "with write permission",
                           file.string()));
}

void EngineLog::write(const CandidateRecord& record) {
  if (!stream_.is_open()) return;
  const nlohmann::ordered_json line = {{"graph", record.graph},
                                       {"engine", record.engine},
                                       {"kind", or_null(record.kind)},
                                       {"build_seconds", or_null(record.build_seconds)},
                                       {"seconds", or_null(record.seconds)},
                                       {"workspace_bytes", record.workspace_bytes},
                                       {"refusal", or_null(record.refusal)},
                                       {"chosen", record.is_chosen},
                                       {"cached", record.is_cached},
                                       {"cut_off", record.is_cut_off},
                                       {"narrow_sums", record.narrow_sums}};
  // cuDNN's messages need not be valid UTF-8.
  stream_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
          << std::endl;
  if (stream_) return;
  stream_.close();
  core::log_warning("--engine-log: writing failed, so the file is incomplete");
}

}  // namespace lockstep::backend::cuda
