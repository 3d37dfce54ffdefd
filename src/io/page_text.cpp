#include "io/page_text.h"

namespace orthobatch::io {
namespace {

std::string with_escapes(const std::string& text,
                         const std::vector<std::pair<char, std::string>>& escapes) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const std::string* escape = nullptr;
    for (const auto& [from, to] : escapes)
      if (c == from) escape = &to;
    if (escape)
      out += *escape;
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string filled_page(const std::string& text,
                        const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  size_t at = 0;
  for (const auto& [name, value] : values) {
    const std::string mark = "{{" + name + "}}";
    const size_t found = text.find(mark, at);
    if (found == std::string::npos) throw std::logic_error("the page has no " + mark);
    out += text.substr(at, found - at) + value;
    at = found + mark.size();
  }
  return out + text.substr(at);
}

std::string inside_script(const std::string& json) {
  return with_escapes(json, {{'<', "\\u003c"}});
}

std::string inside_html(const std::string& text) {
  return with_escapes(text, {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}});
}

}  // namespace orthobatch::io
