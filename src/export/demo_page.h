#pragma once

#include <string>

#include "export/plain_net.h"

namespace orthobatch::exporter {

/// One page with the net and all it needs inside, in which a user draws or opens a picture and the
/// net answers. `net` takes bytes or floats 0 … 255; `tested`, which may be empty, gives images to
/// try. Pictures are scaled as training scales files; dark ink on light paper is inverted for nets
/// that draw, unless they were trained on a user's own pictures.
std::string demo_page(const PlainNet& net, const std::vector<std::string>& classes,
                      const data::InputScale& scale, const data::ImageSet& tested,
                      bool own_pictures, const std::string& facts);

}  // namespace orthobatch::exporter
