# A program fuzz_NAME from NAME.cpp for each.
set(fuzz_targets gzip idx json mat)
