#pragma once

#include <string>
#include <vector>

#include "report/results.h"

namespace orthobatch {

struct PageOptions {
  bool samples = true;  ///< whether the page shows images of the data sets
};

/// The report: one HTML file that needs nothing else.
std::string report_page(const std::vector<ExperimentResult>& results, const PageOptions& options);

}  // namespace orthobatch
