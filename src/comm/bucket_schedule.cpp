#include "bucket_schedule.hpp"

#include <algorithm>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

BucketSchedule BucketSchedule::without_buckets(std::size_t elements) {
  BucketSchedule schedule;
  schedule.elements_ = elements;
  return schedule;
}

BucketSchedule::BucketSchedule(std::size_t elements, std::size_t bucket_bytes)
    : elements_(elements), length_(bucket_bytes / sizeof(float)) {
  if (length_ == 0) {
    core::fail(core::ExitStatus::usage,
               "a gradient bucket holds less than one value; choose a larger bucket size");
  }
  count_ = elements_ / length_ + (elements_ % length_ == 0 ? 0 : 1);
}

std::size_t BucketSchedule::end(std::size_t bucket) const {
  return bucket + 1 >= count_ ? elements_ : (bucket + 1) * length_;
}

std::size_t BucketSchedule::full(std::size_t filled) const {
  if (count_ == 0 || filled >= elements_) return count_;
  return filled / length_;
}

std::size_t BucketSchedule::needed_beyond(std::size_t elements) const {
  if (count_ == 0 || elements >= elements_) return count_;
  return elements / length_ + 1;
}

std::size_t BucketSchedule::summed(std::size_t buckets) const {
  return buckets >= count_ ? elements_ : buckets * length_;
}

std::vector<std::size_t> BucketSchedule::bucket_bytes(std::size_t element_bytes) const {
  std::vector<std::size_t> bytes(count_);
  for (std::size_t b = 0; b < count_; ++b) bytes[b] = length(b) * element_bytes;
  return bytes;
}

BucketSchedule cut_gradients(Communicator& communicator, std::size_t elements,
                             const ReducerOptions& options, const std::function<void()>& check) {
  BucketSchedule buckets = BucketSchedule::without_buckets(elements);
  together(communicator, [&] {
    check();
    const BucketSchedule cut(elements, options.bucket_bytes);
    if (options.kind != ReducerKind::none && communicator.size() > 1) buckets = cut;
  });
  return buckets;
}

}  // namespace lockstep::comm
