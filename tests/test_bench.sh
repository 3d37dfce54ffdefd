#!/usr/bin/env bash
# orthobatch bench as its user meets it: tables, JSON, bars, messages and exit codes.
# usage: test_bench.sh PROGRAM SOURCE_FOLDER
source=$2
source "$source/tests/program.sh" "$1"

# refuse PATTERN ARGUMENTS…: exit code 1 or 2, one line and at most the hint at --help, an extended
# regular expression in it
refuse() {
  local pattern=$1 output status
  shift
  output=$("$program" bench "$@" 2>&1)
  status=$?
  output=$(grep -vx 'Run with --help for more information.' <<<"$output")
  { [ "$status" -ge 1 ] && [ "$status" -le 2 ] && [ "$(wc -l <<<"$output")" -eq 1 ] &&
    grep -qE -- "$pattern" <<<"$output"; } ||
    fail "bench $*: expected exit 1 or 2 and one line with /$pattern/, got exit $status and: $output"
}

# --- a quick run as JSON, and the bars -------------------------------------------------------------
TIMEFORMAT=%U
{ time "$program" bench --quick --json >quick.json 2>err; } 2>taken || fail "a quick run: $(cat err)"
awk '{ exit !($1 < 60) }' taken || fail "a quick run: $(cat taken) seconds of a processor"
/usr/bin/python3 "$source/tests/bench_json.py" "$source/bench/bars.py" quick.json >json.out 2>&1 ||
  fail "quick.json: $(cat json.out)"
# The layers are those of the registry: each line of `layers` that begins with a name.
for method in $("$program" layers | grep -oE '^[A-Za-z_]+\(' | tr -d '('); do
  grep -qE "\"name\":\"$method(\(|\")" quick.json || fail "not measured: $method"
done
grep -qE '^measuring 16x64x8x8 nchw$' err || fail "no progress: $(cat err)"

# --- tables, of a part of it -----------------------------------------------------------------------
"$program" bench --quick --sections layers --layout nchw --shapes 4x8x6x6 --layers 'LDL(1e-3)' BN --threads 2 >out 2>err ||
  fail "layers alone: $(cat err)"
grep -qE '^layers: 4x8x6x6 nchw, gemm_gflops [0-9.]+$' out || fail "no table for a shape: $(cat out)"
grep -qE '^ +forward +backward +ms +best +x torch +x GEMM +speed-up +NxN, % +MiB$' out || fail "columns: $(cat out)"
number=' +[0-9]+\.[0-9]{2}'
grep -qE "^torch BatchNorm2d$number$number$number$number +1\.00$number$number +-$number$" out || fail "torch: $(cat out)"
grep -qE "^LDL\(0.001\)($number){9}$" out || fail "LDL: $(cat out)"
grep -qE 'channels_last|composed|^(inference|scaling|step):' out && fail "more than was asked for: $(cat out)"
# What a layer costs is the distance from the net without one.
"$program" bench --quick --sections step >out 2>err || fail "steps alone: $(cat err)"
grep -qE '^ +ms +best +x none +x torch +MiB$' out || fail "columns of a step: $(cat out)"
[ "$(grep -cE "^no normalisation$number$number +1\.00$number$number$" out)" -eq 2 ] || fail "no net without layers: $(cat out)"
[ "$(grep -cE "^ours, ZCA, folded($number){5}$" out)" -eq 2 ] || fail "no training step: $(cat out)"

# --- between processes -----------------------------------------------------------------------------
"$program" bench --quick --processes 2 >out 2>err || fail "two processes: $(cat err)"
grep -qE '^A round takes -?[0-9]+ us and its bytes at' out || fail "no constants of the link: $(cat out)"
grep -qE '^speed-up on ranks +link +2 .* 1024$' out || fail "no plan up to 1,024 ranks: $(cat out)"
[ "$(grep -cE '^(mnist|svhn), 16 images over the ranks +[0-9]' out)" -eq 2 ] || fail "no step over the ranks: $(cat out)"
[ "$(grep -cE ' 100 Gbit/s( +[0-9.]+){10}$' out)" -eq 4 ] || fail "not a plan for each net: $(cat out)"
"$program" bench --quick --processes 2 --json 2>/dev/null | grep -q '"latency_seconds":.*"100 Gbit/s":.*"1024":' ||
  fail 'two processes: no JSON'

# --- Ctrl-C ----------------------------------------------------------------------------------------
(exec "$program" bench --quick --repeats 100000 --json >out 2>err) &
pid=$!
until grep -q 'measuring 16x16x8x8' err 2>/dev/null || ! kill -0 $pid; do sleep 0.05; done
kill -TERM $pid  # as Ctrl-C; a background process of a script ignores SIGINT itself
wait $pid
code=$?
[ $code -eq 143 ] || fail "SIGTERM: expected exit 143, got $code: $(cat err)"
grep -q 'stopped' err || fail "Ctrl-C: $(cat err)"
[ -s out ] && fail 'Ctrl-C left a part of the JSON'

# --- bad options -----------------------------------------------------------------------------------
refuse "shapes: expected BATCHxCHANNELSxHEIGHTxWIDTH, as 256x64x14x14, found '256x64'" --shapes 256x64
refuse "found '256x0x14x14'" --shapes 32x16x4x4,256x0x14x14
refuse 'at most [0-9]+ values, found 65536x65536x1x1' --shapes 65536x65536x1x1
refuse '2 samples' --shapes 1x8x1x1
refuse 'sections: .*scaling' --sections scalin
refuse 'layout' --layout chw
refuse 'threads' --threads -1
refuse 'repeats' --repeats 0
refuse "did you mean '--repeats'" --repeat 3
# A bad spec is shown with a caret, as everywhere.
expect 2 "did you mean 'ZCA'" bench --quick --layers ZCB

[ "$failures" -eq 0 ] && echo 'bench: all as expected'
exit "$failures"
