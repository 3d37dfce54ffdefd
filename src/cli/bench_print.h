#pragma once
// What `orthobatch bench` prints: tables, or JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/exchange.h"
#include "bench/runner.h"

namespace orthobatch::cli {

std::string text_of(const bench::Table& table);
/// The exchanges that were measured, what nets exchange, and the speed-up of more ranks.
std::string text_of(const bench::Exchanges& exchanges);

/// Machine, versions and every time of a run; bench/bars.py reads it.
nlohmann::ordered_json json_of(const std::vector<bench::Table>& tables,
                               const bench::Session& session);
nlohmann::ordered_json json_of(const bench::Exchanges& exchanges, const bench::Session& session);

}  // namespace orthobatch::cli
