#include "digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace lockstep::data {

std::string digest(const Dataset& train, const Dataset& test) {
  // Checkpoints store this value, so it must not change between versions. The hash of each part is
  // the seed of the next, so the result depends on order and lengths.
  XXH64_hash_t hash = 0;
  for (const Dataset* set : {&train, &test}) {
    hash = XXH64(set->images.data(), set->images.size(), hash);
    hash = XXH64(set->labels.data(), set->labels.size(), hash);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace lockstep::data
