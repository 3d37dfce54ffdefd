#pragma once
// The results of an experiment in words, as Markdown and as JSON.

#include <string>
#include <vector>

#include "experiment/results.h"

namespace orthobatch::report {

/// Whether the exact gradient changes the order of the layers.
std::string answer_text(const experiment::GradientVerdict& verdict);

/// A line each: "  no         ZCA ends ahead of BN: 1 of 3 pairs, 2 the other way round". Empty
/// where no pair can be judged, as with one seed for every row.
std::string claims_text(const std::vector<experiment::ClaimResult>& claims);

/// What the table comes to: how far the order of the layers is the paper's, whether the exact
/// gradient changes it, error against images, the answers to the paper's claims.
std::vector<std::string> conclusions(const experiment::ExperimentResult& result);

/// Table and conclusions, for a terminal.
std::string to_text(const experiment::ExperimentResult& result);

/// A section of a Markdown document: the data, the tables, what they come to.
std::string to_markdown(const experiment::ExperimentResult& result);

/// What results.json has, and the page. Numbers have six digits.
nlohmann::ordered_json to_json(const std::vector<experiment::ExperimentResult>& results);

/// In one line, whatever bytes the run folders put into it.
std::string to_text(const nlohmann::ordered_json& json);

}  // namespace orthobatch::report
