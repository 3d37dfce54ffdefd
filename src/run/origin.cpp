#include "run/origin.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "data/catalogue.h"
#include "io/checksum.h"
#include "io/file.h"

namespace orthobatch::run {
namespace {

namespace fs = std::filesystem;

/// What nobody elsewhere knows of this machine; in a container without it the container's name.
std::string machine_name() {
  try {
    const std::string id = io::read_text("/etc/machine-id", 1 << 10);
    if (id.size() > 1) return id;
  } catch (const io::FileError&) {
    // There is none.
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

}  // namespace

std::string origin_of(const std::string& run_folder, const std::string& data_folder) {
  std::error_code ignored;
  io::Md5 sum;
  for (const std::string& part : {machine_name(), std::to_string(::geteuid()),
                                  fs::weakly_canonical(run_folder, ignored).string(), data_folder})
    sum.update(part.c_str(), part.size() + 1);  // with its end: no two lists give the same bytes
  return sum.hex();
}

std::string origin_in(const nlohmann::json& config) {
  const auto origin = config.find("origin");
  return origin != config.end() && origin->is_string() ? origin->get<std::string>() : "";
}

void require_named_or_made_here(const std::string& file, const std::string& data,
                                const std::string& origin, bool named) {
  if (named || !data::is_own_data(data)) return;
  std::error_code ignored;
  const std::string real = fs::canonical(file, ignored).string();
  struct stat status {};
  if (::stat(real.c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
      origin == origin_of(io::parent_path(real), data))
    return;
  throw io::FileError(file,
                      "data: expected --data DIR or --data-dir DIR, which name the pictures "
                      "to read, as this run was not made by you on this machine in this "
                      "folder; found " +
                          data + " in the run's config");
}

}  // namespace orthobatch::run
