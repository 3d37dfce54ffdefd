#pragma once
// The results of an experiment in words, as Markdown and as JSON.

#include <string>
#include <vector>

#include "experiment/results.h"

namespace orthobatch {

/// Whether the exact gradient changes the order of the layers.
std::string answer_text(const GradientVerdict& verdict);

/// A line each: "  does not  ZCA ends ahead of BN: 1 of 3 pairs, 2 the other way round". Empty
/// where no pair can be judged, as with one seed for every row.
std::string claims_text(const std::vector<ClaimResult>& claims);

/// What the table comes to: how far the order of the layers is the paper's, whether the exact
/// gradient changes it, which of the paper's claims hold.
std::vector<std::string> conclusions(const ExperimentResult& result);

/// Table and conclusions, for a terminal.
std::string to_text(const ExperimentResult& result);

/// A section of a Markdown document: the data, the tables, what they come to.
std::string to_markdown(const ExperimentResult& result);

/// What results.json has, and the page. Numbers have six digits.
nlohmann::ordered_json to_json(const std::vector<ExperimentResult>& results);

/// In one line, whatever bytes the run folders put into it.
std::string to_text(const nlohmann::ordered_json& json);

}  // namespace orthobatch
