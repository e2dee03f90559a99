// SPDX-License-Identifier: BSD-3-Clause
#include "batch_feed.hpp"

#include <algorithm>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::train {

namespace {

class HostFeed final : public BatchFeed {
 public:
  HostFeed(const data::DataOptions& options, const data::Dataset& images,
           const data::DistributedSampler& sampler, int rank, backend::Plan& plan)
      : loader_(images, sampler, rank, options), plan_(plan) {}

  void start_epoch(std::int64_t epoch, std::size_t first_step) override {
    loader_.start_epoch(epoch, first_step);
  }
  void wait() override { batch_ = loader_.next(); }
  void upload() override { plan_.upload(batch_.images, batch_.labels); }

 private:
  data::DataLoader loader_;
  backend::Plan& plan_;
  data::Batch batch_;
};

backend::DeviceDataset& device_dataset(backend::Plan& plan) {
  if (backend::DeviceDataset* const dataset = plan.device_dataset()) return *dataset;
  core::fail(core::ExitStatus::usage,
             "--data-residency device is for GPUs; a CPU reads the images where they are");
}

class ResidentFeed final : public BatchFeed {
 public:
  ResidentFeed(const data::DataOptions& options, const data::Dataset& images,
               const data::DistributedSampler& sampler, int rank, backend::Plan& plan)
      : augmentation_(options.augmentation),
        seed_(options.seed),
        sampler_(sampler),
        rank_(rank),
        dataset_(device_dataset(plan)),
        samples_(sampler.batch_per_rank()),
        crops_(samples_.size()) {
    dataset_.load_dataset(
        images.labels(), [&images](std::size_t first, std::span<std::uint8_t> to) {
          const auto from = images.pixels().subspan(first * images.image_bytes(), to.size());
          std::ranges::copy(from, to.begin());
        });
  }

  void start_epoch(std::int64_t epoch, std::size_t first_step) override {
    epoch_ = epoch;
    order_ = sampler_.epoch(epoch, rank_);
    next_ = first_step * samples_.size();
  }

  void wait() override {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const std::uint32_t sample = order_.at(next_ + i);
      samples_[i] = static_cast<std::int32_t>(sample);
      crops_[i] = data::choose_crop(augmentation_, seed_, epoch_, sample);
    }
    next_ += samples_.size();
  }

  void upload() override { dataset_.upload_samples(samples_, crops_); }

 private:
  data::Augmentation augmentation_;
  std::uint64_t seed_;
  const data::DistributedSampler& sampler_;
  int rank_;
  backend::DeviceDataset& dataset_;
  std::vector<std::int32_t> samples_;
  std::vector<core::CropFlip> crops_;
  std::vector<std::uint32_t> order_;
  std::int64_t epoch_ = 0;
  std::size_t next_ = 0;
};

/// The batch of one rank as it is sent.
struct RankBatch {
  RankBatch(std::size_t count, std::size_t image_bytes)
      : images(count * image_bytes), labels(count) {}

  double bytes() const {
    return static_cast<double>(images.size() + labels.size() * sizeof(std::int32_t));
  }

  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
};

/// Rank 0 of a parameter server prepares the global batch and sends each rank its part in `upload`,
/// where the other ranks wait for it. They read no images.
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
      replicas_.send(std::as_bytes(std::span(part_.images)), rank);
      replicas_.send(std::as_bytes(std::span(part_.labels)), rank);
    }
    select(0);
    plan_.upload(part_.images, part_.labels);
  }

  comm::Traffic traffic() const override {
    return {.sent_bytes = (replicas_.size() - 1) * part_.bytes(), .received_bytes = 0};
  }

 private:
  /// Copies the images of `rank` from the global batch: position p belongs to rank p mod ranks (see
  /// `data::DistributedSampler`).
  void select(int rank) {
    const auto ranks = static_cast<std::size_t>(replicas_.size());
    for (std::size_t i = 0; i < part_.labels.size(); ++i) {
      const std::size_t position = i * ranks + static_cast<std::size_t>(rank);
      std::ranges::copy(batch_.images.subspan(position * image_bytes_, image_bytes_),
                        part_.images.begin() + static_cast<std::ptrdiff_t>(i * image_bytes_));
      part_.labels[i] = batch_.labels[position];
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
    replicas_.receive(std::as_writable_bytes(std::span(part_.images)), 0);
    replicas_.receive(std::as_writable_bytes(std::span(part_.labels)), 0);
    plan_.upload(part_.images, part_.labels);
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

std::unique_ptr<BatchFeed> make_batch_feed(const data::DataOptions& options,
                                           comm::ReducerKind reducer, const data::Dataset& images,
                                           const data::DistributedSampler& sampler,
                                           comm::Communicator& replicas, backend::Plan& plan) {
  const int rank = replicas.rank();
  if (reducer == comm::ReducerKind::parameter_server && replicas.size() > 1) {
    const std::size_t batch = sampler.batch_per_rank();
    if (rank == 0) return std::make_unique<ServerFeed>(options, images, batch, replicas, plan);
    return std::make_unique<WorkerFeed>(images, batch, replicas, plan);
  }
  if (options.residency == data::DataResidency::device)
    return std::make_unique<ResidentFeed>(options, images, sampler, rank, plan);
  return std::make_unique<HostFeed>(options, images, sampler, rank, plan);
}

}  // namespace lockstep::train
