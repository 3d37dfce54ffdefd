#include "data/links.h"

#include <filesystem>

namespace orthobatch::data {
namespace {

namespace fs = std::filesystem;

/// With a slash at its end, so that one folder is in another where its path begins with it.
std::string real_folder(const std::string& path) {
  std::error_code error;
  std::string out = fs::weakly_canonical(path, error).string();
  if (error) out = path;  // a link that leads nowhere: whoever opens it says so
  return out == "/" ? out : out + "/";
}

}  // namespace

bool is_link(const std::string& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored);
}

LinkRule::LinkRule(const std::string& folder, bool follow)
    : folder_(real_folder(folder)), follow_(follow) {}

bool LinkRule::refuses(const std::string& path) const {
  return !follow_ && is_link(path) && real_folder(path).rfind(folder_, 0) != 0;
}

bool LinkRule::leads_back(const std::string& path) const {
  return is_link(path) && folder_.rfind(real_folder(path), 0) == 0;
}

}  // namespace orthobatch::data
