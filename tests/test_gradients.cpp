// Every spec's exact gradient against central differences in double, at every kind of spectrum; and
// the paper's printed gradients held to the errors they have.

#include <algorithm>
#include <set>

#include "check/gradient_check.h"
#include "core/registry.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

struct Case {
  const char* name;
  Spectrum spectrum;
  double gap;
  int64_t samples;
};

constexpr int64_t channels = 6;
const Case cases[] = {
    {"distinct", Spectrum::distinct, 0, 18},    {"close6", Spectrum::close, 1e-6, 18},
    {"close10", Spectrum::close, 1e-10, 18},    {"equal", Spectrum::equal, 0, 18},
    {"duplicated", Spectrum::deficient, 0, 18}, {"few_samples", Spectrum::distinct, 0, 5},
};

CheckResult run(const std::string& spec, const Case& c, uint64_t seed, bool at_start = false) {
  CheckOptions options;
  options.channels = channels;
  options.samples = c.samples;
  options.spectrum = c.spectrum;
  options.gap = c.gap;
  options.seed = seed;
  options.at_start = at_start;
  options.tolerance = tolerance::gradient;
  options.directions = test::long_suite() ? 40 : 10;  // each touches every entry
  return check_gradient(spec, options);
}

class Gradients : public testing::TestWithParam<std::string> {};

/// Why ∇x does not exist in a case, as the check says it; empty where it exists.
std::string obstacle(const LayerSpec& spec, const std::string& name) {
  const std::string& method = spec.method();
  const auto is_one_of = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), method) != names.end();
  };
  const bool whole = spec.group_size() == 0;  // groups of such a Σ are not such themselves
  // 1/(λi−λj) for every pair; a rotation of ZCA_spectral takes the order of the λ out.
  const bool spectral = method == "PCA" || (method == "ZCA_spectral" && !spec.has_rotation());
  const bool complete = method == "PLDLP" && spec.value("complete") != 0;
  if (name == "equal") return spectral ? "coincide" : complete ? "tie for a pivot" : "";
  if (name == "duplicated") {
    if (complete) return "tie for a pivot";
    // Rank jumps under the pseudo-inverse; floors and iterations have none.
    const bool inverts = is_one_of({"ZCA", "ZCA_corr", "ZCA_spectral", "PCA", "LDL", "LDL_corr"});
    return inverts && spec.value("eps") == 0 ? "without variance" : "";
  }
  if (name == "few_samples" && whole) {
    if (method == "PLDLP") return "more than one pivot is zero";
    return spectral && spec.value("eps") > 0 ? "coincide" : "";  // null ones are left out
  }
  if (name == "close10" && whole) {
    if (spectral) return "coincide";
    // The floor is one of a pair.
    const bool floored =
        (method == "ZCAE" && spec.value("q") != 0) || (method == "ZCAM" && spec.value("c") == 0.1);
    return floored ? "which sets the floor, is not simple" : "";
  }
  return "";
}

/// At a gap of 1e-6 what has no gradient at 1e-10 has one at the edge of what differences resolve.
bool hard_to_resolve(const LayerSpec& spec, const Case& c) {
  return c.name == std::string("close6") && !obstacle(spec, "close10").empty();
}

TEST_P(Gradients, ExactAgreesWithCentralDifferences) {
  const LayerSpec spec = GetParam();
  for (const Case& c : cases) {
    const CheckResult result = run(GetParam(), c, 3);
    ASSERT_FALSE(result.rows.empty());
    ASSERT_EQ(result.rows[0].of, "x");
    const std::string expected = obstacle(spec, c.name);
    EXPECT_EQ(result.why_no_gradient.empty(), expected.empty()) << c.name;
    for (const CheckRow& row : result.rows) {
      std::cout << GetParam() << " " << c.name << " " << row.of << " " << row.exact_error << "\n";
      if (row.of == "x" && !expected.empty()) {
        EXPECT_EQ(row.verdict, Verdict::no_gradient) << c.name;
        const auto& found = result.why_no_gradient;
        EXPECT_TRUE(std::any_of(
            found.begin(), found.end(),
            [&](const std::string& why) { return why.find(expected) != std::string::npos; }))
            << c.name << ": no '" << expected << "' in " << testing::PrintToString(found);
      } else if (row.of == "x" && hard_to_resolve(spec, c)) {
        EXPECT_NE(row.verdict, Verdict::off) << c.name;
        EXPECT_LT(row.exact_error, 10 * tolerance::gradient) << c.name;
      } else {
        EXPECT_EQ(row.verdict, Verdict::ok)
            << c.name << " " << row.of << ": error " << row.exact_error << ", resolved to "
            << row.resolution;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Gradients, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(Specs, EveryRegisteredMethodIsAmongThem) {
  std::set<std::string> tested;
  for (const LayerSpec spec : test::all_specs()) tested.insert(spec.method());
  for (const MethodInfo& method : registry())
    EXPECT_EQ(tested.count(method.name), 1U) << "no spec of " << method.name << " in all_specs()";
}

double error_of(const CheckResult& result, const std::string& of, bool paper) {
  for (const CheckRow& row : result.rows)
    if (row.of == of) return paper ? row.paper_error.value() : row.exact_error;
  ADD_FAILURE() << "no row for " << of;
  return 0;
}

// The errors of docs/errata.md. They are the paper's, and must stay reachable as they are.
TEST(PaperGradients, LdlIsOffByOrderOne) {
  for (const char* spec : {"LDL(1e-5)", "LDL(0)", "LDL_corr(1e-5)", "PLDLP(1e-5)"})
    for (uint64_t seed : {1, 2, 3}) {
      const CheckResult result = run(spec, cases[0], seed);
      EXPECT_GT(error_of(result, "x", true), 0.3) << spec;
      EXPECT_LT(error_of(result, "x", false), tolerance::gradient) << spec;
      EXPECT_LT(error_of(result, "gamma", true), tolerance::gradient) << "γ is printed right";
    }
}

TEST(PaperGradients, CayleyIsHalfAtTheStart) {
  for (const char* spec : {"BN->W", "BN->W->Gamma", "ZCA(1e-5)->W"}) {
    EXPECT_NEAR(error_of(run(spec, cases[0], 1, true), "S", true), 0.5, 1e-9) << spec;
    EXPECT_GT(error_of(run(spec, cases[0], 1, false), "S", true), 0.3) << spec;
  }
}

TEST(PaperGradients, FlooredZcaIsOffByPercents) {
  for (const char* spec : {"ZCAM(1e-5,c=1/10)", "ZCAE(1e-5)"}) {
    const double error = error_of(run(spec, cases[0], 1), "x", true);
    EXPECT_GT(error, 5e-3) << spec;
    EXPECT_LT(error, 0.3) << spec;
  }
}

TEST(PaperGradients, PlainZcaIsRightWhereEigenvaluesAreDistinctAndWrongWhereEqual) {
  EXPECT_LT(error_of(run("ZCA(1e-5)", cases[0], 1), "x", true), tolerance::gradient);
  EXPECT_GT(error_of(run("ZCA(1e-5)", cases[3], 1), "x", true), 0.05);
}

TEST(Check, Judges) {
  EXPECT_EQ(judge(1e-9, 1e-10, 1e-7), Verdict::ok);
  EXPECT_EQ(judge(1e-3, 1e-10, 1e-7), Verdict::off);
  EXPECT_EQ(judge(1e-3, 1e-3, 1e-7), Verdict::unresolved);
  EXPECT_EQ(judge(1e-3, 1e-5, 1e-7), Verdict::off);
  EXPECT_EQ(judge(std::numeric_limits<double>::infinity(), 1, 1e-7), Verdict::off);
  EXPECT_EQ(judge(std::nan(""), 1e-10, 1e-7), Verdict::off);
}

TEST(Check, NamesPointsWithoutGradient) {
  const CheckResult tie = run("PLDLP(1e-5,complete)", cases[3], 1);
  EXPECT_EQ(tie.rows[0].verdict, Verdict::no_gradient);
  EXPECT_EQ(tie.why_no_gradient.at(0), "two channels tie for a pivot");
  const CheckResult rank = run("ZCA(0)", cases[4], 1);
  EXPECT_NE(rank.why_no_gradient.at(0).find("without variance"), std::string::npos);
  const CheckResult floor = run("ZCAE(1e-5)", cases[2], 1);
  EXPECT_NE(floor.why_no_gradient.at(0).find("sets the floor, is not simple"), std::string::npos);
}

}  // namespace
}  // namespace orthobatch
