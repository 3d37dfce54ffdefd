// One program of all test files: `tests gradients` runs the tests of test_gradients.cpp alone, with
// gtest's options behind it. Without a name all are run.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace {

/// Visits the full name of each test and the name of its file: "gradients" of …/test_gradients.cpp.
template <typename Visit>
void each_test(const Visit& visit) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      std::string file = test.file();
      file.erase(0, file.rfind("test_") + 5);
      file.erase(file.rfind('.'));
      visit(std::string(suite.name()) + "." + test.name(), file);
    }
  }
}

/// Prints every failure once more when all tests have run: the reason stands last.
class Reasons : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name() + "\n";
  }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    reasons_ += test_;  // to ask the UnitTest here would wait for a lock that its caller holds
    reasons_ += std::string(part.file_name() ? part.file_name() : "") + ":" +
                std::to_string(part.line_number()) + ": " + part.summary() + "\n";
  }
  void OnTestEnd(const testing::TestInfo&) override { test_.clear(); }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    if (!reasons_.empty()) std::printf("\nFailed:\n%.8000s", reasons_.c_str());
  }
  std::string test_, reasons_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new Reasons);
  if (argc == 1) return RUN_ALL_TESTS();
  const std::string wanted = argv[1];
  // A filter has what is run, a minus, and what of that is not: the tests of other files.
  std::string filter = GTEST_FLAG_GET(filter);
  bool found = false, minus = filter.find('-') != std::string::npos;
  each_test([&](const std::string& name, const std::string& file) {
    if (file == wanted) {
      found = true;
      return;
    }
    filter += (minus ? ":" : "-") + name;
    minus = true;
  });
  if (argc > 2 || !found) {
    std::fprintf(
        stderr,
        "tests: expected the name of a test file, as gradients, and gtest's options, found '%s'\n",
        argv[argc > 2 ? 2 : 1]);
    return 2;
  }
  GTEST_FLAG_SET(filter, filter);
  GTEST_FLAG_SET(brief, true);  // else the filter, all of it, stands at the head of what is printed
  return RUN_ALL_TESTS();
}
