#include "run/names.h"

#include <cctype>

#include "data/catalogue.h"

namespace orthobatch::run {
namespace {

bool stays(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) || c == '-' || c == '.';
}

}  // namespace

std::string run_name(const std::string& data, const std::string& row, uint64_t seed) {
  std::string name = data::data_title(data);
  for (char& c : name) c = stays(c) ? c : '_';
  name += "-";
  for (const char c : row) {
    if (stays(c))
      name += c;
    else if (name.back() != '_' && c != ')' && c != '>')
      name += '_';
  }
  return name + "-seed" + std::to_string(seed);
}

}  // namespace orthobatch::run
