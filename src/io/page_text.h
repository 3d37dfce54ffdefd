#pragma once
// Pages that are one file: a template from the program, with everything put into it.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/embedded.h"

namespace orthobatch::io {

/// The text of a file among those that are embedded together.
template <typename Files>
const std::string& embedded_text(const Files& files, const std::string& name) {
  for (const EmbeddedFile& file : files)
    if (file.name == name) return file.text;
  throw std::logic_error("no part of the page is called " + name);
}

/// Each {{name}} of the template, replaced once, in order: what is put in is not looked at again.
std::string filled_page(const std::string& text,
                        const std::vector<std::pair<std::string, std::string>>& values);

/// JSON inside a script element: "</script" must not appear in it.
std::string inside_script(const std::string& json);

/// Text inside HTML.
std::string inside_html(const std::string& text);

}  // namespace orthobatch::io
