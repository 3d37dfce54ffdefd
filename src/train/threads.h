#pragma once

namespace orthobatch::train {

/// Gives LibTorch so many threads. Throws std::runtime_error where the system does not let this
/// process make them: LibTorch's pool would wait for them for ever.
void use_threads(int count);

}  // namespace orthobatch::train
