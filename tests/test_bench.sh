#!/usr/bin/env bash
# orthobatch bench as its user meets it: tables, JSON, messages and exit codes.
# usage: test_bench.sh PROGRAM CMAKE
checks=$(cd "$(dirname "$0")" && pwd)/bench_json.cmake
source "$(dirname "$0")/program.sh" "$1"
cmake=$2

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

# --- a quick run ---------------------------------------------------------------------------------
"$program" bench --quick --json quick.json >out 2>err || fail "a quick run: $(cat err)"
grep -qE '^32x16x14x14 channels_last, GEMM [0-9]+ GFLOP/s$' out || fail "no table for a shape: $(cat out)"
for layer in 'torch BatchNorm2d' BN 'ZCA\(1e-5,1e12\)' 'PLDLP\(1e-5\)' 'composed ZCA' \
  'ZCA\(1e-5,1e12\)->W->Gamma'; do
  [ "$(grep -cE "^$layer +[0-9]" out)" -ge 4 ] || fail "not in every table: $layer"
done
# The layers are those of the registry: each line of `layers` that begins with a name.
for method in $("$program" layers | grep -oE '^[A-Za-z_]+\(' | tr -d '('); do
  grep -qE "^$method(\(| )" out || fail "not measured: $method"
done
grep -qE '^ZCA over channels: time ~ N\^-?[0-9.]+' out || fail 'no exponent over channels'
grep -qE '^ours, ZCA, folded +[0-9.]+ +[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9.]+$' out || fail 'no training step'
grep -qE '^[0-9]+ of [0-9]+ bars were not judged' out || fail 'small shapes were judged by the bars of the large'
[ "$(grep -c 'not judged' out)" -eq 1 ] || fail 'a line for each bar that was not judged'
grep -q $'\r' err && fail 'a redrawn line in a file'
grep -qE '^measuring 32x64x8x8 nchw$' err || fail "no progress: $(cat err)"
"$cmake" -DFILE=quick.json -P "$checks" >json.out 2>&1 || fail "quick.json: $(cat json.out)"

# --- between processes ----------------------------------------------------------------------------
"$program" bench --quick --processes 2 --json ranks.json >out 2>err || fail "two processes: $(cat err)"
grep -qE '^A round takes -?[0-9]+ us and a byte' out || fail "no constants of the link: $(cat out)"
grep -qE '^1024 +[0-9.]+ +11253 ' out || fail "no plan up to 1,024 ranks: $(cat out)"
[ "$(grep -c '^On these 2 ranks a step takes' out)" -eq 2 ] || fail "no step over the ranks: $(cat out)"
[ "$(grep -c '^100 Gbit/s: pays up to' out)" -eq 4 ] || fail "not a plan for each net: $(cat out)"
grep -q '"latency_seconds"' ranks.json || fail 'ranks.json: no latency'

# --- a part of it --------------------------------------------------------------------------------
"$program" bench --quick --sections layers --layout nchw --shapes 4x8x6x6 --layers 'LDL(1e-3)' BN \
  --threads 1 >out 2>err || fail "a part: $(cat err)"
# The speed-up is the last column of the means, and the last but one of the shape's table.
[ "$(grep -cE '^(torch BatchNorm2d|LDL\(0.001\)|BN) .* -( +[0-9.-]+)?$' out)" -eq 6 ] ||
  fail "expected three layers in two tables, without a speed-up: $(cat out)"
grep -qE 'channels_last, GEMM|^composed ZCA +[0-9]|^Training step|^Extra memory' out && fail "more than was asked for: $(cat out)"

# --- Ctrl-C --------------------------------------------------------------------------------------
(exec "$program" bench --quick --repeats 100000 --json stopped.json >out 2>err) &
pid=$!
for _ in $(seq 600); do grep -q 'measuring 32x16x14x14' err 2>/dev/null && break; sleep 0.05; done
kill -TERM $pid  # as Ctrl-C; a background process of a script ignores SIGINT itself
wait $pid
code=$?
[ $code -eq 143 ] || fail "SIGTERM: expected exit 143, got $code: $(cat err)"
grep -q 'stopped; stopped.json was not written' err || fail "Ctrl-C: $(cat err)"
[ -e stopped.json ] && fail 'Ctrl-C left a JSON file'

# --- bad options ---------------------------------------------------------------------------------
refuse "shapes: expected BATCHxCHANNELSxHEIGHTxWIDTH, as 256x64x14x14, found '256x64'" --shapes 256x64
refuse "found '256x0x14x14'" --shapes 32x16x4x4,256x0x14x14
refuse "found '8x8x8x8z'" --shapes 8x8x8x8z
refuse "found ''" --shapes 8x8x8x8,,8x8x8x8
refuse 'at most [0-9]+ values, found 65536x65536x1x1' --shapes 65536x65536x1x1
refuse '2 samples' --shapes 1x8x1x1
refuse "found '7x\*' which picks none" --shapes '7x*'
refuse "sections: .*did you mean 'scaling'" --sections scalin
refuse 'layout' --layout chw
refuse 'threads' --threads 0
refuse 'repeats' --repeats 0
refuse "did you mean '--repeats'" --repeat 3
refuse 'nowhere/b.json: cannot write in nowhere' --json nowhere/b.json
# A bad spec is shown with a caret, as everywhere.
output=$("$program" bench --quick --layers ZCB 2>&1)
[ $? -eq 2 ] || fail '--layers ZCB: expected exit 2'
grep -q "did you mean 'ZCA'" <<<"$output" || fail "--layers ZCB: $output"

[ "$failures" -eq 0 ] && echo 'bench: all as expected'
exit "$failures"
