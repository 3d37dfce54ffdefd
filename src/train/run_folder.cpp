#include "train/run_folder.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace orthobatch {
namespace {

constexpr const char* next_name = "next.pt";

}  // namespace

RunFolder::RunFolder(const std::string& path) : path_(path) {
  make_directories(path);
  lock_ = open_own_file(in(".lock")).release();
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw RunInUse(path);
  }
  remove_leftovers();
}

/// What a killed process was writing; nobody else can be writing now.
void RunFolder::remove_leftovers() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == next_name || is_temporary_name(name))
      std::filesystem::remove(entry.path(), ignored);
  }
}

RunFolder::~RunFolder() { ::close(lock_); }

std::string RunFolder::in(const char* name) const { return join_path(path_, name); }

void RunFolder::save_last(const std::string& config, const TrainState& state, DigitNet& net,
                          const torch::optim::SGD& optimizer) const {
  const std::string fresh = in(next_name);
  save_checkpoint(fresh, config, state, net, optimizer);
  // A second name for the old one first, so that last.pt is there at every moment. Without hard
  // links there is no previous.pt, and nothing else is lost.
  ::unlink(previous().c_str());
  [[maybe_unused]] const int linked = ::link(last().c_str(), previous().c_str());
  if (::rename(fresh.c_str(), last().c_str()) != 0)
    throw FileError(last(), std::string("cannot rename: ") + std::strerror(errno));
  sync_directory(path_);
}

void RunFolder::write_metrics(const TrainState& state) const {
  std::string lines;
  for (const auto& record : state.history) lines += record.dump() + "\n";
  write_file(metrics(), lines);
}

}  // namespace orthobatch
