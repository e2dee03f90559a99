// SPDX-License-Identifier: BSD-3-Clause
#include "scattered_feed.hpp"

#include <algorithm>
#include <vector>

#include "lockstep/data/loader.hpp"

namespace lockstep::train {

namespace {

/// The batch of one rank as it is sent.
class RankBatch {
 public:
  RankBatch(std::size_t images, std::size_t image_bytes)
      : images_(images * image_bytes), labels_(images) {}

  std::span<std::uint8_t> images() { return images_; }
  std::span<std::int32_t> labels() { return labels_; }
  double bytes() const {
    return static_cast<double>(images_.size() + labels_.size() * sizeof(std::int32_t));
  }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

class ServerFeed final : public BatchFeed {
 public:
  ServerFeed(const data::DataOptions& options, const data::Dataset& images,
             std::size_t batch_per_rank, comm::Communicator& replicas, backend::Plan& plan)
      : image_bytes_(images.image_bytes()),
        sampler_(images.size(), batch_per_rank * static_cast<std::size_t>(replicas.size()), 1,
                 options.seed, options.last_batch),
        loader_(images, sampler_, 0, options),
        replicas_(replicas),
        plan_(plan),
        part_(batch_per_rank, images.image_bytes()) {}

  void start_epoch(std::int64_t epoch, std::size_t first_step) override {
    loader_.start_epoch(epoch, first_step);
  }
  void wait() override { batch_ = loader_.next(); }

  void upload() override {
    for (int rank = 1; rank < replicas_.size(); ++rank) {
      select(rank);
      replicas_.send(std::as_bytes(part_.images()), rank);
      replicas_.send(std::as_bytes(part_.labels()), rank);
    }
    select(0);
    plan_.upload(part_.images(), part_.labels());
  }

  comm::Traffic traffic() const override {
    return {.sent_bytes = (replicas_.size() - 1) * part_.bytes(), .received_bytes = 0};
  }

 private:
  /// Copies the images of `rank` from the global batch: position p belongs to rank p mod ranks (see
  /// `data::DistributedSampler`).
  void select(int rank) {
    const auto ranks = static_cast<std::size_t>(replicas_.size());
    for (std::size_t i = 0; i < part_.labels().size(); ++i) {
      const std::size_t position = i * ranks + static_cast<std::size_t>(rank);
      std::ranges::copy(batch_.images.subspan(position * image_bytes_, image_bytes_),
                        part_.images().begin() + static_cast<std::ptrdiff_t>(i * image_bytes_));
      part_.labels()[i] = batch_.labels[position];
    }
  }

  std::size_t image_bytes_;
  data::DistributedSampler sampler_;  ///< of the global batch
  data::DataLoader loader_;
  comm::Communicator& replicas_;
  backend::Plan& plan_;
  RankBatch part_;
  data::Batch batch_;
};

class WorkerFeed final : public BatchFeed {
 public:
  WorkerFeed(const data::Dataset& images, std::size_t batch_per_rank, comm::Communicator& replicas,
             backend::Plan& plan)
      : replicas_(replicas), plan_(plan), part_(batch_per_rank, images.image_bytes()) {}

  void start_epoch(std::int64_t, std::size_t) override {}
  void wait() override {}
  void upload() override {
    replicas_.receive(std::as_writable_bytes(part_.images()), 0);
    replicas_.receive(std::as_writable_bytes(part_.labels()), 0);
    plan_.upload(part_.images(), part_.labels());
  }
  comm::Traffic traffic() const override {
    return {.sent_bytes = 0, .received_bytes = part_.bytes()};
  }

 private:
  comm::Communicator& replicas_;
  backend::Plan& plan_;
  RankBatch part_;
};

}  // namespace

std::unique_ptr<BatchFeed> make_scattered_feed(const data::DataOptions& options,
                                               const data::Dataset& images,
                                               std::size_t batch_per_rank,
                                               comm::Communicator& replicas, backend::Plan& plan) {
  if (replicas.rank() == 0)
    return std::make_unique<ServerFeed>(options, images, batch_per_rank, replicas, plan);
  return std::make_unique<WorkerFeed>(images, batch_per_rank, replicas, plan);
}

}  // namespace lockstep::train
