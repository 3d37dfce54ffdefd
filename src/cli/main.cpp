#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/restart.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "nn/warnings.h"
#include "orthobatch/spec.h"

namespace {

/// Torch's messages carry a stack trace after their first part.
std::string message_of(const std::exception& error) {
  if (const auto* torch_error = dynamic_cast<const c10::Error*>(&error))
    return torch_error->what_without_backtrace();
  return error.what();
}

std::string unknown_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.push_back(verb->get_name());
  const std::string word = argv[1];
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return "";
  return fmt::format("no verb '{}', expected {}{}", word, orthobatch::join_choices(verbs),
                     orthobatch::suggestion(word, verbs));
}

std::string unexpected_argument(const CLI::App& app) {
  const std::string word = app.remaining(/*recurse=*/true).at(0);
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands())
    for (const CLI::Option* option : verb->get_options())
      if (option->nonpositional()) names.push_back("--" + option->get_lnames().at(0));
  return fmt::format("an argument was not expected: {}{}", word,
                     orthobatch::suggestion(word, names));
}

/// Torch's warnings without its logger's decoration.
class PlainWarnings : public orthobatch::WarningHandler {
 public:
  void take(const std::string& message) override {
    fmt::print(stderr, "orthobatch: warning: {}\n", message);
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Batch-orthogonalization layers for LibTorch, and the paper they come from.",
               "orthobatch"};
  app.set_version_flag("--version", orthobatch::cli::version_text,
                       "Versions of the program and of the libraries it computes with");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);

  orthobatch::cli::Run run;
  orthobatch::cli::add_train(app, run);
  orthobatch::cli::add_eval(app, run);
  orthobatch::cli::add_reproduce(app, run);
  orthobatch::cli::add_report(app, run);
  orthobatch::cli::add_data(app, run);
  orthobatch::cli::add_layers(app, run);
  orthobatch::cli::add_check(app, run);
  orthobatch::cli::add_bench(app, run);
  if (const std::string complaint = unknown_verb(app, argc, argv); !complaint.empty()) {
    fmt::print(stderr, "orthobatch: {}\n", complaint);
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    fmt::print(stderr, "orthobatch: {}\n", unexpected_argument(app));
    return 2;
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  PlainWarnings warnings;
  const orthobatch::WarningGuard guard(&warnings);
  orthobatch::cli::restart_on_right_core(argv);
  try {
    return run();
  } catch (const orthobatch::SpecError& error) {
    fmt::print(stderr, "orthobatch: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orthobatch: {}\n", message_of(error));
    return 1;
  }
}
