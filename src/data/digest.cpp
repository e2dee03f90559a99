#include "digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <new>
#include <vector>

#include "lockstep/core/handle.hpp"

namespace lockstep::data {

namespace {

static_assert(std::endian::native == std::endian::little, "labels are hashed as in memory");

constexpr std::int64_t most_byte_classes = 256;

struct StateTraits {
  using type = XXH64_state_t*;
  static type null() noexcept { return nullptr; }
  static void close(type state) noexcept { XXH64_freeState(state); }
};

/// Hashes of parts that are added one by one. The hash of each part is the seed of the next, so the
/// result depends on order and lengths.
class ChainedHash {
 public:
  ChainedHash() : state_(XXH64_createState()) {
    if (!state_) throw std::bad_alloc();
    begin();
  }
  template <class T>
  void add(std::span<const T> values) {
    XXH64_update(state_.get(), values.data(), values.size_bytes());
  }
  void end_part() {
    hash_ = XXH64_digest(state_.get());
    begin();
  }
  std::uint64_t value() const { return hash_; }

 private:
  void begin() { XXH64_reset(state_.get(), hash_); }

  core::Handle<StateTraits> state_;
  XXH64_hash_t hash_ = 0;
};

void add_images(const Dataset& set, ChainedHash& hash) {
  std::vector<std::uint8_t> buffer(set.image_bytes());
  for (std::size_t i = 0; i < set.size(); ++i) hash.add(set.read_image(i, buffer));
  hash.end_part();
}

template <class Label>
void add_labels(const Dataset& set, ChainedHash& hash) {
  std::vector<Label> labels(set.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<Label>(set.label(i));
  hash.add(std::span<const Label>(labels));
  hash.end_part();
}

}  // namespace

// Checkpoints store this value, so it must not change between versions.
std::string digest(const Dataset& train, const Dataset& test) {
  ChainedHash hash;
  for (const Dataset* set : {&train, &test}) {
    add_images(*set, hash);
    if (set->info().classes <= most_byte_classes) {
      add_labels<std::uint8_t>(*set, hash);
    } else {
      add_labels<std::int32_t>(*set, hash);
    }
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace lockstep::data
