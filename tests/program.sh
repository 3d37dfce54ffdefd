# For the tests of the program: `source`d with the program as the first argument. Works in a folder of its own
# ($work) that goes with the test; counts what failed in $failures.
set -u
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}

# expect CODE PATTERN ARGUMENTS…: exit code, and an extended regular expression in the output, which stays in $output
expect() {
  local code=$1 pattern=$2 status
  shift 2
  output=$("$program" "$@" 2>&1)
  status=$?
  { [ "$status" -eq "$code" ] && grep -qE -- "$pattern" <<<"$output"; } ||
    fail "orthobatch $*: expected exit $code and /$pattern/, got exit $status and: $output"
}

# also PATTERN: in the same output
also() { grep -qE -- "$1" <<<"$output" || fail "expected /$1/ too in: $output"; }
