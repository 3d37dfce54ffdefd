#pragma once
/// orthobatch: batch-orthogonalization layers for LibTorch.
///
/// A layer's N×N work runs on BLAS and LAPACK. Where that is OpenBLAS, its thread count is set to 1
/// while a layer computes and then put back: it is one number for the whole process, so other users
/// of OpenBLAS run on one thread meanwhile.

#include "orthobatch/diagnostics.h"    // IWYU pragma: export
#include "orthobatch/errors.h"         // IWYU pragma: export
#include "orthobatch/folded.h"         // IWYU pragma: export
#include "orthobatch/functional.h"     // IWYU pragma: export
#include "orthobatch/modules.h"        // IWYU pragma: export
#include "orthobatch/options.h"        // IWYU pragma: export
#include "orthobatch/process_group.h"  // IWYU pragma: export
#include "orthobatch/spec.h"           // IWYU pragma: export
#include "orthobatch/tools.h"          // IWYU pragma: export
#include "orthobatch/version.h"        // IWYU pragma: export
