#include <unistd.h>

#include <cstdio>

#include "cli/program.h"

/// Ends without the destructors of libtorch's operators, which take a quarter of a short run's time.
int main(int argc, char** argv) {
  const int code = orthobatch::cli::run_program(argc, argv);
  std::fflush(nullptr);
  ::_exit(code);
}
