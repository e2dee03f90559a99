#include "messages.hpp"

#include <cstdint>
#include <set>

namespace lockstep::comm {

struct TagPool::State {
  int block = 0;           ///< tags per block
  int capacity = 0;        ///< number of blocks
  int used = 0;            ///< number of leading blocks that have been taken at least once
  std::set<int> returned;  ///< the ones of these that are free again
};

TagPool::TagPool(int largest_tag, int block) : state_(std::make_shared<State>()) {
  state_->block = block;
  state_->capacity = static_cast<int>((std::int64_t{largest_tag} + 1) / block);
}

int TagPool::capacity() const { return state_->capacity; }

std::shared_ptr<const int> TagPool::take() {
  int block = state_->used;
  if (!state_->returned.empty()) {
    block = *state_->returned.begin();
    state_->returned.erase(state_->returned.begin());
  } else if (state_->used < state_->capacity) {
    ++state_->used;
  } else {
    return nullptr;
  }
  return {new int(block * state_->block), [state = state_](const int* first_tag) {
            state->returned.insert(*first_tag / state->block);
            delete first_tag;
          }};
}

}  // namespace lockstep::comm
