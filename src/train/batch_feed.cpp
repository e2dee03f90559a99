// SPDX-License-Identifier: BSD-3-Clause
#include "batch_feed.hpp"

#include <algorithm>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/loader.hpp"
#include "scattered_feed.hpp"

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

}  // namespace

std::unique_ptr<BatchFeed> make_batch_feed(const data::DataOptions& options,
                                           comm::ReducerKind reducer, const data::Dataset& images,
                                           const data::DistributedSampler& sampler,
                                           comm::Communicator& replicas, backend::Plan& plan) {
  if (reducer == comm::ReducerKind::parameter_server && replicas.size() > 1)
    return make_scattered_feed(options, images, sampler.batch_per_rank(), replicas, plan);
  const int rank = replicas.rank();
  if (options.residency == data::DataResidency::device)
    return std::make_unique<ResidentFeed>(options, images, sampler, rank, plan);
  return std::make_unique<HostFeed>(options, images, sampler, rank, plan);
}

}  // namespace lockstep::train
