#include "report/page.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <ctime>

#include "embedded/page.h"
#include "io/page_text.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const std::string& part(const std::string& name) { return embedded_text(embedded_page, name); }

/// Pictures of each row's first run that has them; the samples once a data set.
void add_pictures(const std::vector<ExperimentResult>& results, const PageOptions& options,
                  ordered_json& data) {
  for (size_t e = 0; e < results.size(); ++e) {
    ordered_json& experiment = data["experiments"][e];
    for (size_t r = 0; r < results[e].rows.size(); ++r) {
      const RowResult& row = results[e].rows[r];
      const std::string& name = row.row.config.data;
      const bool shown = results[e].experiment.pictures;
      if (!shown && (!options.samples || data["samples"].contains(name))) continue;
      if (row.runs.empty()) continue;
      std::vector<std::string> problems;
      json pictures = read_pictures(row.runs.front().path, problems);
      for (const std::string& problem : problems)
        experiment["rows"][r]["runs"][0]["problems"].push_back(problem);
      if (pictures.is_null()) continue;
      if (options.samples && !data["samples"].contains(name))
        data["samples"][name] = pictures.at("samples");
      pictures.erase("samples");
      if (shown) experiment["rows"][r]["pictures"] = pictures;
    }
  }
}

std::string scripts() {
  std::string out;
  for (const EmbeddedFile& file : embedded_page)
    if (file.name.size() > 3 && file.name.substr(file.name.size() - 3) == ".js" &&
        file.name.rfind("uPlot", 0) != 0)
      out += file.text;
  return out;
}

}  // namespace

std::string report_page(const std::vector<ExperimentResult>& results, const PageOptions& options) {
  ordered_json data = to_json(results);
  data["made"] = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
  data["samples"] = ordered_json::object();
  add_pictures(results, options, data);
  return filled_page(part("page.html"), {{"library-licence", part("LICENSE")},
                                    {"library-style", part("uPlot.min.css")},
                                    {"style", part("style.css")},
                                    {"data", inside_script(to_text(data))},
                                    {"library", part("uPlot.iife.min.js")},
                                    {"script", scripts()}});
}

}  // namespace orthobatch
