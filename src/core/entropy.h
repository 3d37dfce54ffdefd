#pragma once

#include "core/matrix.h"

namespace orthobatch::core {

/// Rényi entropy H_q of p = λ/Σλ in nats: q = 1 Shannon, q = 0 log of the rank, q = ∞ −ln max p.
/// Values ≤ 0 carry no weight; a spectrum without weight has entropy 0.
double renyi_entropy(const Vector& lambda, double q);

/// exp(H_q): the number of directions the spectrum effectively fills, 1 … N.
double effective_rank(const Vector& lambda, double q);

}  // namespace orthobatch::core
