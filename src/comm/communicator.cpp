#include "lockstep/comm/communicator.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "lockstep/core/system.hpp"

namespace lockstep::comm {

namespace {

class SelfAllReduce final : public AllReduce {
 public:
  void start() override {}
  bool progress() override { return true; }
};

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(std::string library_version)
      : library_version_(std::move(library_version)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  int host() const override { return 0; }
  std::string library_version() const override { return library_version_; }

  void barrier() override {}
  void sum(std::span<double>) override {}
  void sum(std::span<float>) override {}
  void maximum(std::span<double>) override {}
  void broadcast(std::span<std::byte>, int) override {}
  std::vector<std::string> all_gather(const std::string& text) override { return {text}; }
  std::vector<double> gather(std::span<const double> values) override {
    return {values.begin(), values.end()};
  }
  void start_sum(std::span<double>) override {}
  void finish_sum() override {}
  core::Buffer allocate(std::size_t bytes) override { return core::Buffer(bytes); }
  std::vector<AllReduceAlgorithm> algorithms(std::span<const float>, core::DataType) override {
    return {};
  }
  std::unique_ptr<AllReduce> make_all_reduce(std::span<float>, core::DataType communication_type,
                                             AllReduceAlgorithm) override {
    check_communication_type(communication_type);
    return std::make_unique<SelfAllReduce>();
  }
  [[noreturn]] void abort(int status) noexcept override {
    std::fflush(nullptr);
    std::_Exit(status);
  }

 private:
  std::string library_version_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(std::string library_version) {
  return std::make_unique<SelfCommunicator>(std::move(library_version));
}

std::string describe_rank(const Communicator& communicator) {
  return fmt::format("rank {} of {} on {}", communicator.rank(), communicator.size(),
                     core::host_name());
}

}  // namespace lockstep::comm
