#include <set>

#include "core/registry.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using test::message_of;

TEST(Spec, PaperNamesAreCanonical) {
  for (const std::string& s : test::svhn_specs()) EXPECT_EQ(to_string(parse(s)), s);
}

TEST(Spec, CanonicalTextRoundTrips) {
  for (const std::string& s : test::all_specs()) {
    const LayerSpec spec = parse(s);
    EXPECT_EQ(parse(to_string(spec)), spec) << s;
    EXPECT_EQ(to_string(parse(to_string(spec))), to_string(spec)) << s;
  }
}

TEST(Spec, SameMeaningSameText) {
  EXPECT_EQ(to_string("ZCA"), "ZCA(1e-5)");
  EXPECT_EQ(to_string(" ZCA ( 0.00001 , K = 1e+12 ) "), "ZCA(1e-5)");
  EXPECT_EQ(to_string("ZCAM(1e-5,1e12,0.01)"), "ZCAM(1e-5,c=1/100)");
  EXPECT_EQ(to_string("ZCAM(c=1/10)"), "ZCAM(1e-5,c=1/10)");
  EXPECT_EQ(to_string("ZCAE(1e-5, 1e12, q=0.5)"), "ZCAE(1e-5,q=0.5)");
  EXPECT_EQ(to_string("ZCAE(1e-5,1e12,q=1)"), "ZCAE(1e-5)");
  EXPECT_EQ(to_string("BN(1e-5)"), "BN");
  EXPECT_EQ(to_string("BN()"), "BN");
  EXPECT_EQ(to_string("BN(1e-3)"), "BN(0.001)");
  EXPECT_EQ(to_string("PLDLP(1e-5, unpermute)"), "PLDLP(1e-5,unpermute)");
  EXPECT_EQ(to_string("PLDLP(1e-5, unpermute=0)"), "PLDLP(1e-5)");
  EXPECT_EQ(to_string("LDL(1e-5, gradient=paper)"), "LDL(1e-5,gradient=paper)");
  EXPECT_EQ(to_string("LDL(gradient=exact)"), "LDL(1e-5)");
  EXPECT_EQ(to_string("BN(gradient=paper) -> W -> Gamma"), "BN(gradient=paper)->W->Gamma");
  EXPECT_EQ(to_string("IterNorm(1e-5,7,group_size=16)->W"), "IterNorm(1e-5,7,group_size=16)->W");
}

// K bounds 1/(λi−λj), which the exact gradient of the ZCA layers does not have.
TEST(Spec, KIsNamedOnlyWhereItActs) {
  EXPECT_EQ(parse("ZCA_corr(0,inf)->W"), parse("ZCA_corr(0)->W"));
  EXPECT_EQ(to_string("ZCAM_corr(1e-5,inf,1/10)->W"), "ZCAM_corr(1e-5,c=1/10)->W");
  EXPECT_EQ(to_string("PCA(1e-5)"), "PCA(1e-5,1e12)");
  EXPECT_EQ(to_string("ZCA_spectral(0,inf)"), "ZCA_spectral(0,inf)");
  EXPECT_NE(parse("PCA(0,inf)"), parse("PCA(0)"));
  EXPECT_EQ(to_string("ZCAM(0,inf,1/10,gradient=paper)"), "ZCAM(0,inf,1/10,gradient=paper)");
  EXPECT_NE(parse("ZCA(0,inf,gradient=paper)"), parse("ZCA(0,gradient=paper)"));
  // It is kept for a copy with the paper's gradient.
  EXPECT_EQ(to_string(parse("ZCA(0,inf)").with_gradient(Gradient::paper)),
            "ZCA(0,inf,gradient=paper)");
}

TEST(Spec, AnyDoubleSurvives) {
  for (double eps : {1.0 / 3, 1e-300, 5e-324, 123456.789, 1e6, 999999.0, 0.1 + 0.2, 1e-4, 2.5e-7}) {
    const LayerSpec spec = parse("LDL").with("eps", eps);
    EXPECT_EQ(parse(to_string(spec)).value("eps"), eps) << to_string(spec);
  }
  for (double c : {1.0 / 3, 0.37, 1.0, 0.0, 1.0 / 7}) {
    const LayerSpec spec = parse("ZCAM").with("c", c);
    EXPECT_EQ(parse(to_string(spec)).value("c"), c) << to_string(spec);
  }
}

struct BadSpec {
  const char* text;
  size_t position;
  const char* says;
};

class BadSpecs : public testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecs, PointAtThePlaceAndSayWhatWasExpected) {
  const BadSpec& bad = GetParam();
  try {
    parse(bad.text);
    FAIL() << "accepted " << bad.text;
  } catch (const SpecError& error) {
    EXPECT_EQ(error.position(), bad.position) << error.what();
    EXPECT_NE(error.message().find(bad.says), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(bad.text), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Spec, BadSpecs,
    testing::Values(
        BadSpec{"", 0, "expected a method"}, BadSpec{"zca(1e-5)", 0, "did you mean 'ZCA'?"},
        BadSpec{"0.001", 0, "found the number 0.001. For an epsilon write eps=0.001"},
        BadSpec{"ZCAX", 0, "unknown method 'ZCAX', expected BN, ZCA"},
        BadSpec{"ZCA(1e-5", 8, "expected ',' or ')', found the end"},
        BadSpec{"ZCA(1e-5,", 9, "for K"},
        BadSpec{"ZCA(1e-5;3)", 8, "expected ',' or ')', found ';'"},
        BadSpec{"ZCA(x)", 4, "no argument 'x', expected eps, K, group_size or gradient"},
        BadSpec{"ZCA(-1)", 4, "eps must be a number ≥ 0, found -1"},
        BadSpec{"ZCA(inf)", 4, "eps must be"}, BadSpec{"ZCA(nan)", 4, "no argument 'nan'"},
        BadSpec{"ZCA(1e-5,0)", 9, "K must be a number ≥ 1"},
        BadSpec{"ZCAM(1e-5,1/10)", 10, "K must be a number ≥ 1"},  // c in the place of K
        BadSpec{"ZCA(1,2,3)", 8, "takes 2 values without a name (eps,K)"},
        BadSpec{"ZCA(1e-5,K=3,4)", 13, "must come before the named"},
        BadSpec{"ZCA(1e-5,eps=3)", 9, "'eps' is given twice"},
        BadSpec{"ZCA(1e-5,groupsize=4)", 9, "did you mean 'group_size'?"},
        BadSpec{"ZCA(groups=4)", 4, "ZCA has no argument 'groups'"},
        BadSpec{"ZCA(group_size=0)", 15, "group_size must be a whole number from 1"},
        BadSpec{"ZCA(group_size=2.5)", 15, "group_size must be a whole number"},
        BadSpec{"ZCAM(1e-5,1e12,2)", 15, "c must be a number from 0 to 1, found 2"},
        BadSpec{"ZCAM(1e-5,1e12,1/0)", 17, "division by zero"},
        BadSpec{"IterNorm(1e-5,2.5)", 14, "T must be a whole number"},
        BadSpec{"LDL(gradient=papr)", 13, "did you mean 'paper'?"},
        BadSpec{"PCA(gradient=paper)", 13, "prints no gradient for PCA"},
        BadSpec{"BN(gradient=paper)", 12, "prints no gradient for BN"},
        BadSpec{"BN->V", 4, "expected 'W' after '->', found 'V'"},
        BadSpec{"BN->", 4, "expected 'W' after '->', found the end"},
        BadSpec{"BN->W->gamma", 7, "expected 'Gamma'"}, BadSpec{"BN->Gamma", 4, "expected 'W'"},
        BadSpec{"BN->W->Gamma->W", 12, "expected the end"},
        BadSpec{"BN W", 3, "expected '(', '->W'"}));

TEST(Spec, MethodsCanBeListed) {
  std::set<std::string> names;
  for (const MethodDescription& m : methods()) {
    names.insert(m.name);
    EXPECT_EQ(parse(m.name).method(), m.name);
    EXPECT_FALSE(m.formula.empty() || m.description.empty() || m.paper.empty()) << m.name;
    ASSERT_FALSE(m.arguments.empty());
    EXPECT_EQ(m.arguments[0].name, "eps");
    EXPECT_EQ(m.arguments[0].range, "a number ≥ 0");
    for (const ArgumentDescription& a : m.arguments)
      EXPECT_EQ(parse(m.name).value(a.name), a.default_value) << m.name << " " << a.name;
  }
  EXPECT_EQ(names.size(), methods().size());
  EXPECT_TRUE(names.count("ZCAE") && names.count("PLDLP") && names.count("IterNorm"));
}

TEST(Spec, CaretStandsUnderTheFault) {
  const std::string message = message_of([] { parse("ZCAM(1e-5,1e12,x)"); });
  EXPECT_NE(message.find("\n  ZCAM(1e-5,1e12,x)\n                 ^"), std::string::npos)
      << message;
}

TEST(Spec, SuggestsOnlyWhatIsClose) {
  EXPECT_EQ(message_of([] { parse("ZCA(x)"); }).find("did you mean"), std::string::npos);
}

TEST(Spec, ChangedCopiesAreCheckedToo) {
  const LayerSpec spec = "ZCA(1e-5)";
  EXPECT_EQ(to_string(spec.with("eps", 0).with_rotation(Rotation::W_Gamma)), "ZCA(0)->W->Gamma");
  EXPECT_EQ(to_string(spec.with_group_size(8).with_gradient(Gradient::paper)),
            "ZCA(1e-5,1e12,group_size=8,gradient=paper)");
  EXPECT_EQ(to_string(spec), "ZCA(1e-5)");
  EXPECT_THROW(spec.with("eps", -1), SpecError);
  EXPECT_THROW(spec.with("q", 1), SpecError);
  EXPECT_THROW(spec.with_group_size(-1), SpecError);
  EXPECT_THROW(spec.with_group_size(int64_t{1} << 40), SpecError);  // as from text
  EXPECT_EQ(spec.with_group_size(0), spec);
  EXPECT_THROW(spec.value("q"), SpecError);
  EXPECT_THROW(LayerSpec("PCA").with_gradient(Gradient::paper), SpecError);
  const LayerSpec rotated = "BN(gradient=paper)->W";
  EXPECT_THROW(rotated.with_rotation(Rotation::none), SpecError);
}

TEST(Registry, EveryMethodStandsAloneByName) {
  for (const MethodInfo& info : registry()) {
    EXPECT_EQ(parse(info.name).method(), info.name);
    EXPECT_FALSE(info.formula.empty());
    EXPECT_FALSE(info.description.empty());
    EXPECT_FALSE(info.paper.empty());
    for (const Parameter& p : info.parameters) EXPECT_FALSE(p.meaning.empty()) << info.name;
  }
}

}  // namespace
}  // namespace orthobatch
