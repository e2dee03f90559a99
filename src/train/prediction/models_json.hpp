#pragma once

#include <string_view>

namespace lockstep::train {

/// Returns the text of models.json, which is built into the program.
std::string_view models_json();

}  // namespace lockstep::train
