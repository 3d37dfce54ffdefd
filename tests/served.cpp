// The program without its start: libtorch takes a third of a second of processor time to load, and the tests in bash
// call the program six hundred times. This one loads it once, and runs each call in a child of its own.
// usage: served REQUEST, where each line on standard input asks to run what is in the file REQUEST: texts with a zero
// behind each, the process whose standard streams the call gets, its folder, the number of arguments, these, and the
// environment. The answer is a line with the exit code. (Any other use is the program itself: its ranks start so.)

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace {

void take_stream(int fd, const std::string& process) {
  const std::string path = "/proc/" + process + "/fd/" + std::to_string(fd);
  const int opened = ::open(path.c_str(), fd == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_APPEND);
  if (opened < 0) {
    ::close(fd);  // as it is there
  } else if (opened != fd) {
    ::dup2(opened, fd);
    ::close(opened);
  }
}

[[noreturn]] void run(const char* request, char* program) {
  std::vector<std::string> texts;
  std::ifstream file(request);
  for (std::string text; std::getline(file, text, '\0');) texts.push_back(text);
  const size_t count = std::stoul(texts.at(2));
  std::vector<char*> argv = {program};
  for (size_t i = 0; i < count; ++i) argv.push_back(texts.at(3 + i).data());
  argv.push_back(nullptr);
  ::clearenv();
  for (size_t i = 3 + count; i < texts.size(); ++i) ::putenv(texts[i].data());
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) take_stream(fd, texts.at(0));
  if (::chdir(texts.at(1).c_str()) != 0) ::_exit(126);
  const int code = orthobatch::cli::run_program(static_cast<int>(count) + 1, argv.data());
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] != '/') return orthobatch::cli::run_program(argc, argv);
  for (std::string line; std::getline(std::cin, line);) {
    const pid_t child = ::fork();
    if (child == 0) run(argv[1], argv[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    std::cout << (WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)) << std::endl;
  }
  return 0;
}
