# A program fuzz_NAME from NAME.cpp for each.
set(fuzz_targets gzip idx jpeg json mat png safetensors spec)
