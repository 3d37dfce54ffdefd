// What the processor is taken for, and what is done about it.

#include "base/processor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/loops.h"
#include "rooms.h"

namespace orthobatch {
namespace {

constexpr VectorUnits sse{false, false}, avx2{true, false}, avx512{true, true};

TEST(BetterCore, IsAskedForWhereTheKernelsAreOlderThanTheProcessor) {
  for (const char* old : {"Prescott", "Core2", "Nehalem", "Sandybridge", "Barcelona", "Unknown"}) {
    EXPECT_EQ(better_core(old, avx512), "SkylakeX") << old;
    EXPECT_EQ(better_core(old, avx2), "Haswell") << old;
    EXPECT_EQ(better_core(old, sse), "") << old;
  }
}

TEST(BetterCore, IsNotAskedForWhereTheKernelsAreOfItsGeneration) {
  for (const char* recent : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"})
    for (const VectorUnits& units : {sse, avx2, avx512})
      EXPECT_EQ(better_core(recent, units), "") << recent;
}

TEST(BlasCore, HasANameAndTakesTheUsersWord) {
  const BlasCore core = blas_core();
  EXPECT_NE(to_string(core), "");
  if (core.name.empty()) GTEST_SKIP() << "not OpenBLAS";
  EXPECT_EQ(to_string(core), core.library + " as " + core.name);
  ::setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  EXPECT_EQ(blas_core().better, "");
}

TEST(Loops, AreOfASetThatTheProcessorRuns) {
  const std::string name = kernels::loops_name();
  const VectorUnits units = vector_units();
  EXPECT_TRUE(name == "plain" || (name == "avx2" && units.avx2) ||
              (name == "avx512" && units.avx512))
      << name;
  if (const char* asked = std::getenv("ORTHOBATCH_LOOPS")) {
    EXPECT_EQ(name, asked);
  }
}

}  // namespace
}  // namespace orthobatch
