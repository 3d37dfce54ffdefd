#include "train/resume.h"

#include "io/file.h"

namespace orthobatch {

std::string usable_checkpoint(const RunFolder& folder, std::string& complaint) {
  complaint.clear();
  for (const std::string& path : {folder.last(), folder.previous()}) {
    if (!file_exists(path)) continue;
    try {
      const CheckpointHeader header = read_checkpoint_header(path);
      TrainConfig config = config_from_json(header.config, path);
      check_config(config);
      const auto& image = header.config.at("found").at("image");
      DigitNet net(ImageShape{image.at(0), image.at(1), image.at(2)}, config.net);
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

}  // namespace orthobatch
