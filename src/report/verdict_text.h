#pragma once
// What the verdict on the gradients says, in words.

#include <string>
#include <vector>

#include "report/verdict.h"

namespace orthobatch {

/// Whether the exact gradient changes the order, in a sentence or two.
std::string answer_text(const GradientVerdict& verdict);

/// A sentence a pair, with its figures; `rows` are those of the verdict.
std::vector<std::string> pair_texts(const GradientVerdict& verdict,
                                    const std::vector<RowResult>& rows);

}  // namespace orthobatch
