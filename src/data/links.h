#pragma once
// Symbolic links in a folder of data, which may come from a stranger: those that lead out of it are
// not followed unless the user asks for it.

#include <string>

namespace orthobatch::data {

class LinkRule {
 public:
  LinkRule(const std::string& folder, bool follow);

  /// Whether a path below the folder is a link that is not followed.
  bool refuses(const std::string& path) const;
  /// Whether all of the data would be found again behind it.
  bool leads_back(const std::string& path) const;

 private:
  std::string folder_;  ///< without links, with a slash at its end
  bool follow_;
};

bool is_link(const std::string& path);

}  // namespace orthobatch::data
