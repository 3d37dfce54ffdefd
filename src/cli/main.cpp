#include <c10/util/Exception.h>
#include <fmt/core.h>

#include "cli/verbs.h"
#include "orthobatch/spec.h"
#include "orthobatch/version.h"

namespace {

/// Torch's messages carry a stack trace after their first part.
std::string message_of(const std::exception& error) {
  if (const auto* torch_error = dynamic_cast<const c10::Error*>(&error))
    return torch_error->what_without_backtrace();
  return error.what();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Batch-orthogonalization layers for LibTorch, and the paper they come from.",
               "orthobatch"};
  app.set_version_flag("--version", "orthobatch " ORTHOBATCH_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);

  orthobatch::cli::Run run;
  orthobatch::cli::add_layers(app, run);
  orthobatch::cli::add_check(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
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
