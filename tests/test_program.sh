#!/usr/bin/env bash
# The program as its user meets it: output, messages and exit codes.
# usage: test_program.sh PROGRAM [LIBRARY that makes OpenBLAS mistake the processor]
source "$(dirname "$0")/program.sh" "$1"

expect 0 '^orthobatch [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 'layers' --help
expect 2 'subcommand' 
expect 2 "no verb 'chek'.*did you mean 'check'" chek
expect 2 "not expected: --chanels; did you mean '--channels'" check ZCA --chanels 3

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
expect 0 'unresolved' check 'ZCA(1e-5)' --tolerance 1e-17
expect 2 "did you mean 'ZCA'" check 'ZCB(1e-5)'
expect 2 '^ +\^$' check 'ZCA(1e-5'
expect 2 'spectrum.*expected distinct, close, equal or deficient, got odd' check 'ZCA' --spectrum odd
expect 2 'seed' check 'ZCA' --seed -1
expect 2 'samples' check 'ZCA' --samples 1
expect 2 'SPEC' check

# Taken for a Prescott, the program starts itself anew on the right kernels, and says so once.
if [ -n "${2:-}" ] && grep -qw avx2 /proc/cpuinfo; then
  cp "$2" mistaken.so
  export LD_PRELOAD=./mistaken.so  # its list is divided at spaces, which the path may have
  unset OPENBLAS_CORETYPE
  expect 0 'OpenBLAS .* as Prescott \(at work: (SkylakeX|Haswell)\)' --version
  expect 0 '^x .* ok$' check 'ZCA(1e-5)'
  told='takes this processor for a Prescott: running as (SkylakeX|Haswell|Cooperlake|Zen) in its place'
  output=$("$program" train --data synthetic --subset 100 --batch 50 --epochs 1 --out core 2>&1) ||
    fail "train on a core that was mistaken: $output"
  [ "$(grep -cE "$told" <<<"$output")" = 1 ] || fail "expected /$told/ once, got: $output"
  [ "$(OPENBLAS_CORETYPE=Haswell "$program" check ZCA 2>&1 | grep -c Prescott)" = 0 ] ||
    fail "the user's own core type is not taken"
  unset LD_PRELOAD
fi

# One line of complaint, never a stack trace.
if "$program" check 'ZCA(' 2>&1 | grep -qE 'frame #|terminate called'; then
  echo 'FAILED: a stack trace'
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] && echo 'program: all as expected'
exit "$failures"
