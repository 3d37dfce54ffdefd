#include "io/json.h"

#include "fuzz.h"

void parse_bytes(const std::vector<uint8_t>& bytes) {
  const std::string text(bytes.begin(), bytes.end());
  const nlohmann::json json = orthobatch::parse_json(text, "fuzz.json");
  // What was read can be written and read again.
  const auto replace = nlohmann::json::error_handler_t::replace;
  if (orthobatch::parse_json(json.dump(-1, ' ', false, replace), "again.json") != json)
    throw std::logic_error("another value the second time");
}

std::vector<std::vector<uint8_t>> corpus() {
  std::vector<std::vector<uint8_t>> out;
  for (const std::string text :
       {R"({"data": "mnist", "epochs": 3, "blocks": [{"fov": 3, "layer": "BN"}]})",
        R"([null, true, -0.5e-7, "\u00e9\n", {}, [], 18446744073709551615])", "1", "[[[[]]]]"})
    out.emplace_back(text.begin(), text.end());
  return out;
}
