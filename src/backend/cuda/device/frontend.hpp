// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Includes the main header of cudnn-frontend. It takes a minute to compile and causes warnings with
// this project's flags, so only the source files that need it include this file, and no header
// does.

#include <cudnn_frontend.h>
