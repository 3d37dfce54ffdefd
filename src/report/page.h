#pragma once

#include <string>
#include <vector>

#include "experiment/results.h"
#include "io/embedded.h"

namespace orthobatch::report {

struct PageOptions {
  bool samples = true;  ///< whether the page shows images of the data sets
};

/// What the page is made of: the files of page/ and uPlot's, as the program was built with them.
const std::vector<io::EmbeddedFile>& page_parts();

/// The report: one HTML file that needs nothing else. Throws std::runtime_error where the program
/// was built without uPlot.
std::string report_page(const std::vector<experiment::ExperimentResult>& results,
                        const PageOptions& options,
                        const std::vector<io::EmbeddedFile>& parts = page_parts());

}  // namespace orthobatch::report
