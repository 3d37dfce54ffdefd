#include "io/safetensors.h"

#include "fuzz.h"

using orthobatch::Safetensors;

void parse_bytes(const std::vector<uint8_t>& bytes) {
  const Safetensors file = orthobatch::parse_safetensors(bytes, "fuzz.safetensors");
  // What was accepted is used whole, and comes back the same.
  const std::string sum = orthobatch::content_checksum(file, "checksum");
  const std::string text = orthobatch::safetensors_text(file, "fuzz.safetensors");
  const Safetensors again =
      orthobatch::parse_safetensors({text.begin(), text.end()}, "fuzz.safetensors");
  if (orthobatch::content_checksum(again, "checksum") != sum)
    throw std::logic_error("what was written is not what was read");
}

std::vector<std::vector<uint8_t>> corpus() {
  const auto bytes = [](const Safetensors& file) {
    const std::string text = orthobatch::safetensors_text(file, "corpus");
    return std::vector<uint8_t>(text.begin(), text.end());
  };
  Safetensors file;
  const std::vector<double> numbers = {1, 2, 3, 4, 5, 6};
  file.metadata = {{"format", "orthobatch checkpoint 2"}, {"state", "{\"epoch\":1}"}};
  file.add("net.fc.weight", "F32", {2, 3}, numbers.data(), 24);
  file.add("net.count", "I64", {}, numbers.data(), 8);
  file.add("net.cov", "F64", {1, 2}, numbers.data(), 16);
  file.add("net.none", "F32", {0}, numbers.data(), 0);
  return {bytes({}), bytes(file)};
}
