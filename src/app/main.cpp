// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

int main(int argc, char** argv) { return lockstep::app::run_process(argc, argv); }
