#pragma once

#include <string>

#include "io/file.h"

namespace orthobatch::io {

/// Whether the bytes start as a gzip member does.
bool is_gzip(const Bytes& bytes);

/// The content of gzip data: all its members, checksums and lengths verified. `name` is what
/// messages call it; more than `limit` bytes of content are refused.
Bytes gunzip(const Bytes& compressed, const std::string& name, uint64_t limit = uint64_t{1} << 32);

/// One gzip member.
Bytes gzip(const Bytes& content);

}  // namespace orthobatch::io
