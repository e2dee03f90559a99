#pragma once

// The one door to cudnn-frontend. Its headers take a minute to compile and warn under our flags:
// only the files that build graphs include this one, no header does.

#include <cudnn_frontend.h>
