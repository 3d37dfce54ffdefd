#!/usr/bin/env bash
# Runs test programs as another machine would: as_machine.sh NAME=VALUE FLAG… -- PROGRAM ARGUMENT… [-- PROGRAM …]
# Exit code 77, which ctest reports as skipped, where this processor lacks one of the FLAGs of /proc/cpuinfo.
set -uo pipefail

setting=$1; shift
while [ "$1" != -- ]; do
  if [ -r /proc/cpuinfo ] && ! grep -m1 '^flags' /proc/cpuinfo | grep -qw -- "$1"; then
    echo "skipped: $setting needs $1, which this processor does not have"
    exit 77
  fi
  shift
done
export "$setting" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

code=0
while [ $# -gt 0 ]; do
  shift  # --
  command=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do command+=("$1"); shift; done
  "${command[@]}" --gtest_brief=1 || { code=1; echo "failed with $setting: ${command[*]}"; }
done
exit $code
