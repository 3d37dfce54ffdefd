#include "train/resume.h"

#include <cctype>

#include "io/file.h"
#include "train/found.h"

namespace orthobatch {

std::string usable_checkpoint(const RunFolder& folder, std::string& complaint) {
  complaint.clear();
  for (const std::string& path : {folder.last(), folder.previous()}) {
    if (!file_exists(path)) continue;
    try {
      const CheckpointHeader header = read_checkpoint_header(path);
      TrainConfig config = config_from_json(header.config, path);
      check_config(config);
      DigitNet net(found_data(header.config, path).image, config.net);
      load_checkpoint(path, net, nullptr);
      return path;
    } catch (const std::exception& error) {
      if (!complaint.empty()) throw;
      complaint = error.what();
    }
  }
  if (!complaint.empty()) throw std::runtime_error(complaint);
  return "";
}

std::string run_name(const std::string& data, const std::string& row, uint64_t seed) {
  std::string name = data + "-";
  for (const char c : row) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.')
      name += c;
    else if (name.back() != '_' && c != ')' && c != '>')
      name += '_';
  }
  return name + "-seed" + std::to_string(seed);
}

}  // namespace orthobatch
