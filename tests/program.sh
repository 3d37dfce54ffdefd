# For the tests of the program: `source`d with the program as the first argument. Works in a folder of its own
# ($work) that goes with the test; counts what failed in $failures.
set -u
program=$1
base=$(mktemp -d)
work=$base/work
trap 'rm -rf "$base"' EXIT
mkdir "$work"
cd "$work" || exit 1
failures=0

fail() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}

grep -qw avx2 /proc/cpuinfo && export OPENBLAS_CORETYPE=Haswell  # else each start may be two

# call ARGUMENTS…: as "$program" ARGUMENTS… and without the time it takes to start, where tests/served.cpp is built.
# Neither in the background nor under other limits.
loaded_with() { loaded=${LD_PRELOAD-}:${OPENBLAS_CORETYPE-}; }
loaded_with && at_start=$loaded
served=$(dirname "$program")/tests/served
if [ -x "$served" ]; then
  coproc server { exec "$served" "$base/request" 2>/dev/null; }
  disown  # no job that a test waits for
  exec {ask}>&"${server[1]}" {answer}<&"${server[0]}"
  call() {
    local status
    loaded_with
    [ "$loaded" = "$at_start" ] || { "$program" "$@"; return; }
    { printf '%s\0' "$BASHPID" "$PWD" $# "$@" && env -0; } >"$base/request"
    echo >&"$ask"
    read -r -u "$answer" status
    return "$status"
  }
else
  call() { "$program" "$@"; }
fi

# expect CODE PATTERN ARGUMENTS…: exit code, and an extended regular expression in the output, which stays in $output
expect() {
  local code=$1 pattern=$2 status
  shift 2
  output=$(call "$@" 2>&1)
  status=$?
  { [ "$status" -eq "$code" ] && grep -qE -- "$pattern" <<<"$output"; } ||
    fail "orthobatch $*: expected exit $code and /$pattern/, got exit $status and: $output"
}

# also PATTERN: in the same output
also() { grep -qE -- "$1" <<<"$output" || fail "expected /$1/ too in: $output"; }
