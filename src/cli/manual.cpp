// orthobatch manual: the man page, from what the command line knows of itself.

#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/describe.h"
#include "cli/verbs.h"
#include "orthobatch/version.h"

namespace orthobatch::cli {
namespace {

/// The next character of UTF-8, as `i` goes on past it.
uint32_t next_character(const std::string& text, size_t& i) {
  const auto byte = static_cast<unsigned char>(text[i++]);
  if (byte < 0x80) return byte;
  const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
  uint32_t out = byte & (0x3f >> more);
  for (int k = 0; k < more && i < text.size(); ++k)
    out = out << 6 | (static_cast<unsigned char>(text[i++]) & 0x3f);
  return out;
}

/// Text as roff shows it: no character of it is read as a command, and those beyond ASCII are
/// named, so that no encoding matters.
std::string roff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const uint32_t c = next_character(text, i);
    const bool starts_line = out.empty() || out.back() == '\n';
    if (c == '\\')
      out += "\\(rs";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '^')
      out += "\\(ha";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '.' && starts_line)
      out += "\\&.";
    else if (c < 0x80)
      out += static_cast<char>(c);
    else
      out += fmt::format("\\[u{:04X}]", c);
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

/// Begins with a capital, ends with a full stop.
std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

std::string label(const OptionEntry& option) {
  std::string out;
  const bool positional = option.names.front()[0] != '-';
  for (const std::string& name : option.names)
    out += (out.empty() ? "" : ", ") + (positional ? italic(name) : bold(name));
  if (!positional && !option.value.empty()) out += " " + italic(option.value);
  return out + (option.repeated ? " ..." : "");
}

std::string entry_text(const OptionEntry& option) {
  const bool positional = option.names.front()[0] != '-';
  std::string out = ".TP\n" + label(option) + "\n" + roff(sentence(option.help)) + "\n";
  if (positional && option.value != "TEXT" && option.help.find(option.value) == std::string::npos)
    out += "One of " + roff(option.value) + ".\n";
  if (!option.range.empty()) out += "Range: " + roff(option.range) + ".\n";
  if (!option.preset.empty()) out += "Default: " + roff(option.preset) + ".\n";
  if (option.required && !positional) out += "Required.\n";
  return out;
}

std::string usage(const VerbEntry& verb) {
  std::string out = bold("orthobatch " + path_text(verb)) + " [" + italic("OPTION") + "]...";
  for (const OptionEntry& positional : verb.positionals) {
    const std::string word = italic(positional.names.front()) + (positional.repeated ? "..." : "");
    out += positional.required ? " " + word : " [" + word + "]";
  }
  return out;
}

/// Of a verb that has others below it only what they have in common.
std::string verb_text(const VerbEntry& verb) {
  std::string out = ".SS " + bold("orthobatch " + path_text(verb)) + "\n";
  if (verb.verbs.empty()) out += usage(verb) + "\n.PP\n";
  out += roff(sentence(verb.help)) + "\n";
  for (const OptionEntry& positional : verb.positionals) out += entry_text(positional);
  for (const OptionEntry& option : verb.options)
    if (option.names.back() != "--help") out += entry_text(option);
  if (!verb.footer.empty()) out += ".PP\n" + roff(sentence(verb.footer)) + "\n";
  return out;
}

const char* const rest = R"(.SH EXIT STATUS
.TP
.B 0
All went well.
.TP
.B 1
What was asked for failed; one line on standard error says why. Output that could not be written is among it.
.TP
.B 2
A mistake on the command line.
.TP
.B 3
.B check
could not resolve a gradient to its tolerance.
.TP
.BR 129 ", " 130 ", " 143
Stopped by SIGHUP, SIGINT or SIGTERM; a training was saved, and
.B train \-\-resume
goes on.
.SH ENVIRONMENT
.TP
.B ORTHOBATCH_DATA
Folder of the data sets, where
.B \-\-data\-dir
is not given; else
.I orthobatch
in the cache folder
.RB ( $XDG_CACHE_HOME ,
.IR \(ti/.cache ).
.TP
.BR RANK ", " WORLD_SIZE ", " MASTER_ADDR ", " MASTER_PORT
The place of this process among several that train together, as torchrun sets them.
.TP
.B ORTHOBATCH_LOOPS
The set of inner loops: plain, avx2 or avx512. Default: the best that the processor has.
.TP
.BR OPENBLAS_CORETYPE ", " DNNL_MAX_CPU_ISA
The kernels that OpenBLAS and oneDNN take.
)";

std::string man_page(const VerbEntry& program) {
  std::string out = fmt::format(
      ".\\\" Written by: orthobatch manual\n"
      ".TH ORTHOBATCH 1 \"\" \"orthobatch {}\" \"User Commands\"\n"
      ".SH NAME\northobatch \\- {}\n.SH SYNOPSIS\n",
      roff(ORTHOBATCH_VERSION),
      "whitening layers in place of batch normalization: trains, checks, measures");
  out += bold("orthobatch") + " " + italic("VERB") + " [" + italic("OPTION") + "]...\n";
  for (const OptionEntry& option : program.options)
    out += ".br\n" + bold("orthobatch " + option.names.back()) + "\n";
  out += ".SH DESCRIPTION\n" + roff(sentence(program.help)) + "\n.PP\nThe verbs:\n";
  for (const VerbEntry& verb : program.verbs)
    out += ".TP\n" + bold(path_text(verb)) + "\n" + roff(sentence(verb.help)) + "\n";
  out += ".SH OPTIONS\n";
  for (const OptionEntry& option : program.options) out += entry_text(option);
  out += ".SH VERBS\nEach also takes " + bold("--help") + ".\n";
  for (const VerbEntry* verb : all_verbs(program)) out += verb_text(*verb);
  if (!program.footer.empty()) out += ".SH NOTES\n" + roff(sentence(program.footer)) + "\n";
  return out + rest;
}

}  // namespace

void add_manual(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("manual", "The man page, from what the command line knows of itself");
  auto out = std::make_shared<std::string>();
  verb->add_option("-o,--out", *out, "File to write")
      ->type_name("FILE")
      ->default_str("standard output");
  verb->footer("To read it: orthobatch manual | man -l -");
  verb->callback([&app, &run, out] {
    run = [&app, out] {
      print_or_write(*out, man_page(describe(app)));
      return 0;
    };
  });
}

}  // namespace orthobatch::cli
