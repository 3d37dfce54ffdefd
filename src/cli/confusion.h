#pragma once

#include <string>
#include <vector>

#include "cli/pictures.h"

namespace orthobatch::cli {

/// "1.25 %"; "-" of nothing.
std::string share_text(int64_t part, int64_t whole);

/// What was answered for each label; of many classes, which answer was wrong most often.
std::string confusion_table(const data::Confusion& confusion,
                            const std::vector<std::string>& classes);

}  // namespace orthobatch::cli
