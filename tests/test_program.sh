#!/usr/bin/env bash
# The program as its user meets it: output, messages and exit codes.
# usage: test_program.sh PROGRAM [LIBRARY that makes OpenBLAS mistake the processor]
source "$(dirname "$0")/program.sh" "$1"
grep -qw avx2 /proc/cpuinfo && export OPENBLAS_CORETYPE=Haswell  # else each start may be two

expect 0 '^orthobatch [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 'layers' --help
expect 0 '^  train  .*Trains'  # alone it lists its verbs
expect 2 "no verb 'chek'.*did you mean 'check'" chek
expect 2 "unexpected argument: --chanels; did you mean '--channels'" check ZCA --chanels 3

expect 0 'ZCAE\(eps,K\)' layers
expect 0 'MNIST 0.30 %' layers ZCAE
expect 0 'IterNorm' layers
expect 2 "did you mean 'LDL'" layers LDLL

expect 0 '^x .* ok$' check 'ZCA(1e-5)'
expect 0 '^S .* ok$' check 'LDL(1e-5)->W->Gamma' --channels 4 --samples 12
expect 0 '^S +[0-9.e-]+ +5\.0e-01 ' check 'BN->W' --at-start
expect 0 'no gradient here' check 'PLDLP(1e-5,complete)' --spectrum equal
expect 0 'two channels tie for a pivot' check 'PLDLP(1e-5,complete)' --spectrum equal
expect 0 '^x .* ok$' check 'ZCA(1e-5)' --spectrum equal
expect 0 '^x .* ok$' check 'ZCAE(1e-5)' --spectrum deficient
expect 0 '^x .* ok$' check 'LDL(0)' --samples 4
expect 0 '^x .* ok$' check 'ZCA(1e-5)' --channels 40 --samples 60
expect 3 'unresolved' check 'ZCA(1e-5)' --tolerance 1e-16
expect 2 'tolerance: expected a number, 1e-16 to 1, found 1e-30' check 'ZCA(1e-5)' --tolerance 1e-30
expect 2 'tolerance: expected a number, 1e-16 to 1, found nan' check 'ZCA(1e-5)' --tolerance nan
expect 1 "^x .* OFF$" check 'LDL(1e-5,gradient=paper)'
# Ctrl-C ends one that would take hours at once.
timeout --preserve-status -s INT -k 60 1 "$program" check 'ZCA(1e-5)' --channels 512 --samples 4096
code=$?
[ $code -eq 130 ] || fail "Ctrl-C of a check: exit $code"
expect 1 "^LDL\(1e-5,gradient=paper\): |The paper's gradient is off" check 'LDL(1e-5,gradient=paper)'
expect 0 '^x .* ok$' check 'LDL(1e-5,gradient=exact)'
expect 2 "did you mean 'ZCA'" check 'ZCB(1e-5)'
expect 2 '^ +\^$' check 'ZCA(1e-5'
expect 2 'spectrum.*expected distinct, close, equal or deficient, got odd' check 'ZCA' --spectrum odd
expect 2 'seed: expected a whole number, 0 to 9223372036854775807, found -1$' check 'ZCA' --seed -1
expect 2 'seed: .*found 18446744073709551616$' check 'ZCA' --seed 18446744073709551616
expect 2 'gap: expected a number, 0 to 0.01, found -1$' check 'ZCA' --gap -1
expect 2 'found 1e400, which no double can hold' check 'ZCA(1e400)'
expect 2 'samples' check 'ZCA' --samples 1
expect 2 'SPEC' check

# Taken for a Prescott, the program starts itself anew on the right kernels, and says so once.
if [ -n "${2:-}" ] && grep -qw avx2 /proc/cpuinfo; then
  cp "$2" mistaken.so
  export LD_PRELOAD=./mistaken.so  # its list is divided at spaces, which the path may have
  unset OPENBLAS_CORETYPE
  expect 0 'OpenBLAS .* as Prescott \(at work: (SkylakeX|Haswell)\)' --version
  expect 0 '^x .* ok$' check 'ZCA(1e-5)'
  told='takes this processor for a Prescott: restarted with OPENBLAS_CORETYPE=(SkylakeX|Haswell|Cooperlake|Zen)'
  output=$("$program" train --data synthetic --subset 100 --batch 50 --epochs 1 --out core 2>&1) ||
    fail "train on a core that was mistaken: $output"
  [ "$(grep -cE "$told" <<<"$output")" = 1 ] || fail "expected /$told/ once, got: $output"
  [ "$(OPENBLAS_CORETYPE=Haswell "$program" check ZCA 2>&1 | grep -c Prescott)" = 0 ] ||
    fail "the user's own core type is not taken"
  unset LD_PRELOAD
fi

# --- output that does not arrive -----------------------------------------------------------------
for verb in 'check BN' layers --help --version 'data get svhn'; do
  output=$("$program" $verb 2>&1 >/dev/full)
  code=$?
  { [ $code -eq 1 ] && [ "$(wc -l <<<"$output")" -eq 1 ] && grep -q 'standard output: cannot write' <<<"$output"; } ||
    fail "$verb to a full device: exit $code and: $output"
done

# --- an empty value is no value ------------------------------------------------------------------
for option in --resume --out --config --data --data-dir --layer --head; do
  expect 2 "$option: expected a value, found an empty text" train $option ''
done
expect 2 'picture: expected a value' data show synthetic --picture ''
expect 2 'DIR: expected a value' report ''
expect 2 'out: expected a value' reproduce mnist --out ''
expect 2 'SPEC: expected a value' check ''
[ -e runs ] && fail 'an empty value started a run'

# --- one value for each time an option is given --------------------------------------------------
expect 2 'unexpected argument: ZCA; for several, give the option again: --layer BN --layer ZCA' train --layer BN ZCA LDL
expect 2 'unexpected argument: BN; for several, give the option again: --rows ZCA --rows BN' reproduce mnist --out o --rows ZCA BN
"$program" train --help | grep -E -- '--layer .*\.\.\.' && fail 'the help of --layer promises several values at once'

# --- memory that does not suffice: a sanitizer takes more than any limit -------------------------
if ! grep -qa __asan_init "$program"; then
  output=$( (ulimit -v 1000000 && timeout 20 "$program" check ZCA) 2>&1)
  code=$?
  { [ $code -eq 1 ] && grep -qE '^orthobatch: out of memory: expected a limit of [0-9]+ KiB' <<<"$output"; } ||
    fail "ulimit -v 1000000: exit $code and: $output"
fi

# One line of complaint, never a stack trace.
if "$program" check 'ZCA(' 2>&1 | grep -qE 'frame #|terminate called'; then
  echo 'FAILED: a stack trace'
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] && echo 'program: all as expected'
exit "$failures"
