#pragma once
/// orthobatch: batch-orthogonalization layers for LibTorch.

#include "orthobatch/diagnostics.h"  // IWYU pragma: export
#include "orthobatch/modules.h"      // IWYU pragma: export
#include "orthobatch/options.h"      // IWYU pragma: export
#include "orthobatch/spec.h"         // IWYU pragma: export
#include "orthobatch/version.h"      // IWYU pragma: export
