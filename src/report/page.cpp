#include "report/page.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <stdexcept>

#include "base/text.h"
#include "embedded/page.h"
#include "io/page_text.h"
#include "report/summary.h"

namespace orthobatch::report {
namespace {

constexpr const char* library = "uPlot.iife.min.js";

using nlohmann::json;
using nlohmann::ordered_json;

/// Pictures of each row's first run that has them; the samples once a data set, null where they are
/// not wanted.
void add_pictures(const std::vector<experiment::ExperimentResult>& results,
                  const PageOptions& options, ordered_json& data) {
  for (size_t e = 0; e < results.size(); ++e) {
    ordered_json& experiment = data["experiments"][e];
    for (size_t r = 0; r < results[e].rows.size(); ++r) {
      const experiment::RowResult& row = results[e].rows[r];
      const std::string& name = row.row.config.data;
      const bool shown = results[e].experiment.pictures;
      if (!shown && (!options.samples || data["samples"].contains(name))) continue;
      json pictures;
      for (size_t i = 0; i < row.runs.size() && pictures.is_null(); ++i) {
        std::vector<std::string> problems;
        pictures = run::read_pictures(row.runs[i].path, problems);
        for (const std::string& problem : problems)
          experiment["rows"][r]["runs"][i]["problems"].push_back(problem);
        if (!pictures.is_null()) pictures["seed"] = row.runs[i].seed;
      }
      if (pictures.is_null()) continue;
      if (options.samples && !data["samples"].contains(name))
        data["samples"][name] = pictures.at("samples");
      pictures.erase("samples");
      if (shown) experiment["rows"][r]["pictures"] = pictures;
    }
  }
}

std::string scripts(const std::vector<io::EmbeddedFile>& parts) {
  std::string out;
  for (const io::EmbeddedFile& file : parts)
    if (base::ends_with(file.name, ".js") && file.name != library) out += file.text;
  return out;
}

}  // namespace

const std::vector<io::EmbeddedFile>& page_parts() {
  static const std::vector<io::EmbeddedFile> parts(std::begin(io::embedded_page),
                                                   std::end(io::embedded_page));
  return parts;
}

std::string report_page(const std::vector<experiment::ExperimentResult>& results,
                        const PageOptions& options, const std::vector<io::EmbeddedFile>& parts) {
  if (std::none_of(parts.begin(), parts.end(), [](const auto& p) { return p.name == library; }))
    throw std::runtime_error(
        "no page: this program was built without uPlot, which draws it; run "
        "scripts/install-node-packages and build again");
  const auto part = [&](const std::string& name) { return io::embedded_text(parts, name); };
  ordered_json data = to_json(results);
  data["made"] = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
  data["samples"] = options.samples ? ordered_json::object() : ordered_json();
  add_pictures(results, options, data);
  return io::filled_page(part("page.html"), {{"library-licence", part("LICENSE")},
                                             {"library-style", part("uPlot.min.css")},
                                             {"style", part("style.css")},
                                             {"data", io::inside_script(to_text(data))},
                                             {"library", part(library)},
                                             {"script", scripts(parts)}});
}

}  // namespace orthobatch::report
