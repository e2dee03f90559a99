// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::comm {

namespace {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(std::string library_version, TerminateAll terminate)
      : library_version_(std::move(library_version)), terminate_(terminate) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  int host() const override { return 0; }
  std::string library_version() const override { return library_version_; }
  const MpiRanks* mpi_ranks() const override { return nullptr; }

  void barrier() override {}
  void sum(std::span<double>) override {}
  void sum(std::span<float>) override {}
  void maximum(std::span<double>) override {}
  void broadcast(std::span<std::byte>) override {}
  void gather(std::span<const std::byte> data, std::span<std::byte> all) override {
    std::ranges::copy(data, all.begin());
  }
  void send(std::span<const std::byte>, int destination) override {
    core::fail(core::ExitStatus::internal,
               fmt::format("send to rank {}: there is only one rank", destination));
  }
  void receive(std::span<std::byte>, int source) override {
    core::fail(core::ExitStatus::internal,
               fmt::format("receive from rank {}: there is only one rank", source));
  }
  std::unique_ptr<RepeatedMessage> make_send(std::span<const std::byte> data,
                                             int destination) override {
    send(data, destination);  // throws
    return nullptr;
  }
  std::unique_ptr<RepeatedMessage> make_receive(std::span<std::byte> data, int source) override {
    receive(data, source);  // throws
    return nullptr;
  }
  std::unique_ptr<Communicator> split(int colour, int) override {
    return colour < 0 ? nullptr : make_self_communicator(library_version_, terminate_);
  }
  std::vector<std::string> all_gather(const std::string& message) override { return {message}; }
  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    if (terminate_ != nullptr) terminate_(status);
    std::_Exit(status);
  }

 private:
  std::string library_version_;
  TerminateAll terminate_;  ///< may be null
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(std::string library_version,
                                                     TerminateAll terminate) {
  return std::make_unique<SelfCommunicator>(std::move(library_version), terminate);
}

std::string describe_rank(const Communicator& communicator) {
  return fmt::format("rank {} of {} on {}", communicator.rank(), communicator.size(),
                     core::host_name());
}

}  // namespace lockstep::comm
