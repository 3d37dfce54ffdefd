#pragma once
// The sets of inner loops that loops.cpp is compiled to, by name.

#include "kernels/loops.h"

#define ORTHOBATCH_DECLARE_LOOPS(set)         \
  namespace orthobatch::kernels::set {        \
  extern const Loops<float> of_float;         \
  extern const Loops<double> of_double;       \
  extern const CovarianceLoops of_covariance; \
  }
