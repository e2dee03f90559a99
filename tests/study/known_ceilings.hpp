// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>

#include "train/delegating_backend.hpp"

namespace lockstep::train::testing {

/// Returns fixed ceilings: measuring them takes a second, and minutes on the simulated GPU.
class KnownCeilings final : public DelegatingBackend {
 public:
  KnownCeilings(std::unique_ptr<backend::Backend> inner, backend::Ceilings ceilings)
      : DelegatingBackend(std::move(inner)), ceilings_(std::move(ceilings)) {}

  backend::Ceilings ceilings(core::Precision) const override { return ceilings_; }

 private:
  backend::Ceilings ceilings_;
};

}  // namespace lockstep::train::testing
