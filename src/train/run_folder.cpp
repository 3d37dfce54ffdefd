#include "train/run_folder.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

namespace orthobatch::train {

RunFolder::RunFolder(const std::string& path) : path_(path) {
  io::make_directories(path);
  lock_ = io::open_own_file(in(run::lock_name)).release();
  if (!lock()) {
    ::close(lock_);
    throw RunInUse(path);
  }
  remove_leftovers();
}

/// Who only looks whether a run is in hand (is_in_use) has the lock for a moment.
bool RunFolder::lock() const {
  constexpr int tries = 5;
  for (int i = 0; i < tries; ++i) {
    if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// What a killed process was writing; nobody else can be writing now.
void RunFolder::remove_leftovers() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == run::next_name || io::is_temporary_name(name))
      std::filesystem::remove(entry.path(), ignored);
  }
}

RunFolder::~RunFolder() { ::close(lock_); }

std::string RunFolder::in(const char* name) const { return io::join_path(path_, name); }

std::vector<std::string> RunFolder::checkpoints() const {
  std::vector<std::string> out;
  for (const std::string& path : {last(), previous()})
    if (name_taken(path)) out.push_back(path);
  return out;
}

void RunFolder::save(const std::string& path, const std::string& config, const TrainState& state,
                     const DigitNet& net, const torch::optim::SGD& optimizer) const {
  const std::string fresh = in(run::next_name);
  save_checkpoint(fresh, config, state, net, optimizer);
  if (path == last()) {
    // A second name for the old one first, so that `last` is there at every moment. Without hard
    // links there is no `previous`, and nothing else is lost.
    ::unlink(previous().c_str());
    (void)!::link(last().c_str(), previous().c_str());
  }
  // In place of whatever has the name: a link is replaced, not followed.
  if (::rename(fresh.c_str(), path.c_str()) != 0) throw io::FileError(path, "cannot rename", errno);
  io::sync_directory(path_);
}

bool name_taken(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace orthobatch::train
