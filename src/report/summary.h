#pragma once
// The numbers of an experiment as text.

#include <string>
#include <vector>

#include "report/results.h"

namespace orthobatch {

/// The table as texts, a header first.
std::vector<std::vector<std::string>> text_table(const ExperimentResult& result);

/// What the table comes to, a sentence each: how far the order of the layers is the paper's,
/// whether the exact gradient changes it, which of the paper's claims hold.
std::vector<std::string> conclusions(const ExperimentResult& result);

/// A section of a Markdown document: the data, the table with places, what it comes to.
std::string to_markdown(const ExperimentResult& result);

}  // namespace orthobatch
