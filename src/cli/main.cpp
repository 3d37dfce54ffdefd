#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <system_error>

#include "base/text.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/restart.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "nn/message.h"
#include "ops/torch_versions.h"
#include "orthobatch/spec.h"

namespace {

using orthobatch::cli::complain;

/// Where standard input, output or error is closed, the next file that is opened would take its
/// place, and be read or written as such.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // takes the lowest that is free
}

/// Output that did not arrive is an error, whatever else went well.
int with_output_written(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  complain(fmt::format("standard output: cannot write{}{}", errno != 0 ? ": " : "",
                       errno != 0 ? std::strerror(errno) : ""));
  return code == 0 ? 1 : code;
}

std::string unknown_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.push_back(verb->get_name());
  const std::string word = argv[1];
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return "";
  return fmt::format("no verb '{}', expected {}{}", word, orthobatch::base::join_choices(verbs),
                     orthobatch::base::suggestion(word, verbs));
}

/// Torch's warnings without its logger's decoration.
class PlainWarnings : public orthobatch::WarningHandler {
 public:
  void take(const std::string& message) override { complain("warning: " + message); }
};

/// The verb, with its errors told in one line.
int run_verb(const orthobatch::cli::Run& run) {
  PlainWarnings warnings;
  const orthobatch::WarningGuard guard(&warnings);
  try {
    return run();
  } catch (const orthobatch::SpecError& error) {
    complain(error.what());
    return 2;
  } catch (const orthobatch::cli::UsageError& error) {
    complain(error.what());
    return 2;
  } catch (const std::system_error& error) {
    if (!std::ferror(stdout)) complain(error.what());  // else it is told at the end
    return 1;
  } catch (const std::exception& error) {
    complain(orthobatch::message_of(error));
    return 1;
  }
}

/// Whether the verb does any N×N work: to start anew for others would double the time they take.
bool computes(const CLI::App& app) {
  const std::vector<std::string> readers = {"runs", "compare", "layers", "report", "data"};
  const std::string verb = app.get_subcommands().at(0)->get_name();
  return std::find(readers.begin(), readers.end(), verb) == readers.end();
}

// help2man makes the man page of it: "Environment:" is a section there.
const char* const footer =
    "Exit status: 0 success; 1 failure, explained in one line on standard error; 2 a mistake on\n"
    "the command line; 3 'check' could not tell whether a gradient is right; 129, 130, 143 "
    "stopped\n"
    "by SIGHUP, SIGINT or SIGTERM: a training saves its state first, 'train --resume' continues "
    "it.\n\n"
    "Environment:\n"
    "  ORTHOBATCH_DATA             Folder of the data sets (default orthobatch in the cache "
    "folder,\n"
    "                              $XDG_CACHE_HOME or ~/.cache)\n"
    "  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT\n"
    "                              Number of this process, number of all, and where they meet, as\n"
    "                              torchrun sets them\n"
    "  ORTHOBATCH_LOOPS            Instructions of the inner loops: plain, avx2 or avx512\n"
    "                              (default the processor's best)\n"
    "  OPENBLAS_CORETYPE, DNNL_MAX_CPU_ISA\n"
    "                              Kernels of OpenBLAS and oneDNN";

/// The exit code.
int run_program(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond ulimit -f is then a write that fails
  CLI::App app{"Batch-orthogonalization layers for LibTorch, and the paper they come from.",
               "orthobatch"};
  app.set_version_flag("--version", orthobatch::cli::version_text,
                       "Versions of the program and of the libraries it computes with");
  app.formatter(std::make_shared<orthobatch::cli::HelpFormatter>());  // before the verbs take it
  app.require_subcommand(argc > 1 ? 1 : 0);
  app.failure_message(CLI::FailureMessage::simple);

  orthobatch::cli::Run run;
  orthobatch::cli::add_train(app, run);
  orthobatch::cli::add_eval(app, run);
  orthobatch::cli::add_export(app, run);
  orthobatch::cli::add_reproduce(app, run);
  orthobatch::cli::add_report(app, run);
  orthobatch::cli::add_runs(app, run);
  orthobatch::cli::add_compare(app, run);
  orthobatch::cli::add_data(app, run);
  orthobatch::cli::add_layers(app, run);
  orthobatch::cli::add_check(app, run);
  orthobatch::cli::add_bench(app, run);
  app.footer(footer);  // after the verbs, which would take it over
  orthobatch::cli::refuse_empty_values(app);
  if (const std::string complaint = unknown_verb(app, argc, argv); !complaint.empty()) {
    complain(complaint);
    return 2;
  }
  try {
    app.parse(argc, argv);
    if (argc == 1) throw CLI::CallForHelp();
  } catch (const CLI::ExtrasError& error) {
    complain(orthobatch::cli::unexpected_word(app, argc, argv));
    return 2;
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, complaint;
    const int code = app.exit(error, help, complaint);
    orthobatch::cli::put(help.str());
    orthobatch::cli::put(complaint.str(), stderr);
    return with_output_written(code == 0 ? 0 : 2);
  }
  if (computes(app)) orthobatch::cli::restart_on_right_core(argv);
  orthobatch::cli::remember_arguments(argv);
  return with_output_written(run_verb(run));
}

}  // namespace

/// Ends without the destructors of libtorch's operators, which take a quarter of a short run's time.
int main(int argc, char** argv) {
  const int code = run_program(argc, argv);
  std::fflush(nullptr);
  ::_exit(code);
}
