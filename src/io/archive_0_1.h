#pragma once
// Checkpoints of 0.1: archives of torch::serialize with an MD5 in the zip comment. torch's own
// reader runs code that such an archive may hold; this one only takes the texts and numbers out.

#include <string>

#include "io/file.h"
#include "io/safetensors.h"

namespace orthobatch {

/// Whether a file begins as a zip archive does.
bool is_archive(const Bytes& bytes);

/// Verifies the MD5 of a checkpoint of 0.1 and takes its comment off.
void unseal_archive_0_1(Bytes& bytes, const std::string& path);

/// An archive without its comment: `format`, `config` and `state` as metadata, the net's tensors as
/// "net.NAME", the momentum of its parameter i as "optimizer.i", all row-major. Throws FileError
/// for an archive that holds methods, or anything else that train does not write.
Safetensors parse_archive_0_1(const Bytes& bytes, const std::string& path);

}  // namespace orthobatch
