#pragma once
// Where a run was made. A run names the folder of its pictures; one that comes from elsewhere must not choose what is
// read here.

#include <nlohmann/json.hpp>

#include <string>

namespace orthobatch::run {

/// A fingerprint of this machine, this user, the folder of a run and the folder its pictures were
/// read from. config.json has it as "origin".
std::string origin_of(const std::string& run_folder, const std::string& data_folder);

/// "origin" of a config.json; empty: none.
std::string origin_in(const nlohmann::json& config);

/// Throws FileError where `data` is a folder of pictures that the user did not name (`named`), and
/// `file`, of the run that names it, is not this user's or stands elsewhere than `origin` says.
void require_named_or_made_here(const std::string& file, const std::string& data,
                                const std::string& origin, bool named);

}  // namespace orthobatch::run
