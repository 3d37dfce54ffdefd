# A program fuzz_NAME from NAME.cpp for each.
set(fuzz_targets archive gzip idx json mat safetensors spec)
