// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <utility>

#include "options.hpp"

namespace lockstep::app {

/// A member of the options, or of one of their parts (`in`).
template <class T>
class Member {
 public:
  using Place = std::function<T&(Options&)>;

  Member(T Options::*member)  // NOLINT(google-explicit-constructor): a row names the member
      : place_([member](Options& options) -> T& { return options.*member; }) {}
  explicit Member(Place place) : place_(std::move(place)) {}

  T& operator()(Options& options) const { return place_(options); }
  const T& operator()(const Options& options) const {
    return place_(const_cast<Options&>(options));
  }

 private:
  Place place_;
};
template <class Part, class T>
Member<T> in(Part Options::*part, T Part::*member) {
  return Member<T>([=](Options& options) -> T& { return options.*part.*member; });
}
/// A member of the options of a training, or of one of their parts.
template <class T>
Member<T> training(T train::Config::*member) {
  return in(&Options::training, member);
}
template <class Part, class T>
Member<T> training(Part train::Config::*part, T Part::*member) {
  return Member<T>([=](Options& options) -> T& { return options.training.*part.*member; });
}

}  // namespace lockstep::app
