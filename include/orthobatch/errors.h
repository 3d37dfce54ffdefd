#pragma once

#include <stdexcept>

#include "orthobatch/export.h"

namespace orthobatch {

/// A factorization of a covariance that LAPACK could not finish. The layer that throws it has kept
/// its running statistics as they were.
class ORTHOBATCH_API FactorizationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace orthobatch
