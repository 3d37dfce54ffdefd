#pragma once

#include <string>

#include "train/run_folder.h"

namespace orthobatch {

/// The newest checkpoint of a run that can be read; empty when the run has none. `complaint` gets
/// what is wrong with a newer one that was passed over. Throws FileError when there are
/// checkpoints and none can be read.
std::string usable_checkpoint(const RunFolder& folder, std::string& complaint);

}  // namespace orthobatch
