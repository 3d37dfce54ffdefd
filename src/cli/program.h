#pragma once

namespace orthobatch::cli {

/// The program; returns its exit code.
int run_program(int argc, char** argv);

}  // namespace orthobatch::cli
