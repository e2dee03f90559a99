// SPDX-License-Identifier: BSD-3-Clause
#include "replica_states.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

RankState rank_state(const Config& config, int ranks) {
  if (ranks == 1) return RankState::none;
  if (config.reducer.kind == comm::ReducerKind::none) return RankState::all;
  return config.batch_norm == BatchNormMode::local ? RankState::statistics : RankState::none;
}

ReplicaStates::ReplicaStates(std::span<const record::Tensor> own, comm::Communicator& communicator)
    : own_(own.begin(), own.end()), communicator_(communicator) {
  for (const record::Tensor& tensor : own_) elements_ += tensor.values.size();
}

std::vector<record::Tensor> ReplicaStates::tensors() {
  if (communicator_.rank() != 0 || own_.empty()) return {};
  others_.resize(static_cast<std::size_t>(communicator_.size()) - 1);
  std::vector<record::Tensor> tensors;
  for (std::size_t other = 0; other < others_.size(); ++other) {
    others_[other].resize(elements_);
    std::size_t offset = 0;
    for (const record::Tensor& tensor : own_) {
      const std::size_t count = tensor.values.size();
      tensors.push_back({fmt::format("rank_{}", other + 1), tensor.group + "." + tensor.name,
                         tensor.shape, std::span(others_[other]).subspan(offset, count)});
      offset += count;
    }
  }
  return tensors;
}

void ReplicaStates::gather() {
  constexpr std::size_t most = std::size_t{1} << 16;  // limits the memory of a message
  tensors();
  std::size_t offset = 0;
  for (const record::Tensor& tensor : own_) {
    for (std::size_t done = 0; done < tensor.values.size();) {
      const std::size_t count = std::min(most, tensor.values.size() - done);
      const auto part = tensor.values.subspan(done, count);
      const std::vector<float> gathered = comm::gather_arrays(communicator_, part);
      for (std::size_t other = 0; other < others_.size(); ++other) {
        const float* first = gathered.data() + (other + 1) * count;
        std::copy(first, first + count,
                  others_[other].begin() + static_cast<std::ptrdiff_t>(offset));
      }
      done += count;
      offset += count;
    }
  }
}

void ReplicaStates::distribute() {
  std::vector<float> received(elements_);
  for (int rank = 1; rank < communicator_.size(); ++rank) {
    if (communicator_.rank() == 0) received = others_.at(static_cast<std::size_t>(rank) - 1);
    communicator_.broadcast(std::as_writable_bytes(std::span(received)));
    if (communicator_.rank() != rank) continue;
    auto from = received.begin();
    for (const record::Tensor& tensor : own_) {
      const auto end = from + static_cast<std::ptrdiff_t>(tensor.values.size());
      std::copy(from, end, tensor.values.begin());
      from = end;
    }
  }
}

}  // namespace lockstep::train
