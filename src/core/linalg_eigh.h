#pragma once
// The symmetric eigensolver behind linalg.h for matrices that are worth several threads.

#include "core/linalg.h"

namespace orthobatch::core::linalg {

/// eigh of a matrix that is not 0 and whose entries' squares and inverse squares are numbers: the
/// same bits whatever the number of threads. Returns LAPACK's info: 0 unless it did not converge.
int eigh_on_threads(const Matrix& matrix, SymmetricEigen& out);

}  // namespace orthobatch::core::linalg
