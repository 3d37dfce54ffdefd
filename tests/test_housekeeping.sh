#!/usr/bin/env bash
# Runs as they are kept: checked before they begin, stopped early, listed, compared; what --help says of options.
# usage: test_housekeeping.sh PROGRAM
source "$(dirname "$0")/program.sh" "$1"
grep -qw avx2 /proc/cpuinfo && export OPENBLAS_CORETYPE=Haswell  # else each start may be two
export LC_ALL=C.UTF-8

metrics() { sed 's/,"time":.*//' "$1/metrics.jsonl"; }
same() { [ "$(metrics "$1")" = "$(metrics "$2")" ] && [ -n "$(metrics "$1")" ]; }
epochs() { wc -l < "$1/metrics.jsonl"; }
# json FILE EXPRESSION: a condition on what is in it, v, in Python
json() { python3 -c 'import json, sys; v = json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$@" 2>err ||
  fail "$1: expected $2: $(tail -n 1 err)"; }
# says ARGUMENTS…: JSON and nothing else on standard output, nothing on standard error; it stays in `out`
says() { "$program" "$@" >out 2>err && [ "$(wc -l < out)" -eq 1 ] && [ ! -s err ] ||
  fail "orthobatch $*: exit $?, $(wc -l < out) lines, and: $(cat err)"; }

# --- every option of every verb says what it may be, and what it is without being given ----------------------------
verbs() { "$program" ${1:-} --help | sed -n '/^Subcommands:/,$ s/^  \([a-z]\+\) .*/\1/p'; }
options=0
for verb in $(verbs); do
  parts=$(verbs "$verb")
  for part in ${parts:-''}; do
    # An option on a line of its own, its description joined.
    "$program" $verb $part --help | awk '
      /^(Positionals|Options):/ { inside = 1; next }
      /^$|^[^ ]/ { if (entry) print entry; entry = ""; inside = 0 }
      !inside { next }
      /^  [^ ]/ { if (entry) print entry; entry = $0; next }
      { sub(/^ +/, " "); entry = entry $0 }
      END { if (entry) print entry }' > entries
    [ -s entries ] || fail "$verb $part --help lists nothing"
    while read -r entry; do
      value=
      [[ $entry =~ ^-[^\ ]+\ ([A-Z][A-Z=]*) ]] && value=${BASH_REMATCH[1]}
      [[ $entry == -* && -z $value ]] && continue  # a flag
      options=$((options + 1))
      [[ $entry =~ \(([^\(]*\;\ )?(required|default\ [^\(]+)\)$ ]] || fail "$verb $part: no default: $entry"
      case $value in
        N | X) [[ $entry =~ \([^\(]*[0-9]\ to\ (below\ )?[0-9] || $entry =~ \(above\ .*up\ to ]] || fail "$verb $part: no range: $entry" ;;
      esac
    done < entries
    # The same wherever they are.
    unlike() { grep -E -- "$1" entries | grep -vE -- "$2" && fail "$verb $part: expected /$2/"; }
    unlike '^ *--threads ' 'Number of threads; 0: all cores \(0 to 1024; default 0'
    unlike '(^ *|,)--out' '^ *-o,--out [A-Z]'
    unlike '^ *--json' '^ *--json +[A-Z][a-zA-Z ]+ in place of the tables?$'
  done
done
[ "$options" -ge 60 ] || fail "only $options options were looked at"
expect 2 'epochs: expected a whole number, 1 to 100000, found 0' train --epochs 0
expect 2 'learning-rate: expected a number, above 0, up to 1e30, found 0' train --learning-rate 0
expect 2 'momentum: expected a number, 0 to below 1, found 1' train --momentum 1
expect 2 'target-error: expected a number, 0 to 100, found -1' train --target-error -1
expect 2 'patience: expected a whole number, 1 to 100000, found 0' train --patience 0

# --- --dry-run -----------------------------------------------------------------------------------
cat > small.json <<'END'
{"data": "synthetic", "subset": 512, "threads": 1, "epochs": 4, "refresh_images": 100,
 "blocks": [{"channels": 4}, {"fov": 4, "stride": 2, "channels": 8}], "schedule": {"batch": 64}}
END
mkdir dry && cd dry
"$program" train --config ../small.json --layer 'ZCA(1e-5)' --seed 7 --set schedule.alpha_end=0.97 --target-error 1.5 \
  --patience 3 --processes 2 --dry-run > ../dry.json 2>err || fail "--dry-run: $(cat err)"
grep -q '512 training and 2,000 test images, seed 7, 2 processes.*in runs/synthetic-ZCA' err || fail "--dry-run says: $(cat err)"
json ../dry.json 'v["seed"] == 7 and v["stop"] == {"target_error": 1.5, "patience": 3, "from": 0} and v["processes"] == 2'
json ../dry.json 'v["schedule"]["alpha_end"] == 0.97 and [b["layer"] for b in v["blocks"]] == ["ZCA(1e-5)"] * 2'
"$program" train --config ../dry.json --dry-run --quiet > ../again.json || fail 'the config of a dry run'
cmp ../dry.json ../again.json || fail '--config does not take back what --dry-run prints'
expect 2 "did you mean 'ZCA'" train --layer ZCB --dry-run
expect 1 'fov: expected at most' train --data synthetic --set 'blocks=[{"channels":4,"fov":31}]' --dry-run
expect 1 'mnist/train-images-idx3-ubyte: file: expected' train --data-dir nowhere --dry-run
expect 1 'an image of a batch for each of 3 processes, found 2' train --data synthetic --subset 2 --processes 3 --dry-run
expect 1 '../small.json: folder: expected one for the run' train --data synthetic --subset 64 --out ../small.json/run --dry-run
[ -z "$(ls -A | grep -v '^err$')" ] || fail "--dry-run wrote $(ls -A)"
cd ..

# --- stopped early -------------------------------------------------------------------------------
train() { "$program" train --config small.json "$@"; }
train --out whole --quiet || fail 'a plain run'
train --out early --target-error 100 >out 2>err || fail "a target: $(cat err)"
grep -q 'stopped early, after epoch 1: test error .* is within the target of 100 %' err || fail "why it stopped: $(cat err)"
[ "$(epochs early)" -eq 1 ] || fail 'a target that was met'
expect 0 'stopped early, after epoch 1' train --resume early
[ "$(epochs early)" -eq 1 ] || fail 'a finished run went on'
cp -r early longer
"$program" train --resume early --target-error 0 --quiet || fail 'a changed target'
same whole early || fail 'with rules, the numbers are others'
"$program" train --resume longer --epochs 5 --quiet || fail 'more epochs'
[ "$(epochs longer)" -eq 5 ] || fail 'more epochs for a run that was stopped early'
cp -r longer freed
"$program" train --resume freed --set stop.target_error=null --epochs 6 --quiet || fail 'a rule taken back'
grep -q '"target_error": null' freed/config.json || fail '--set stop.target_error=null left a rule'
train --out patient --epochs 40 --learning-rate 1e-12 --set refresh_images=0 --patience 2 2>err || fail "patience: $(cat err)"
grep -q 'stopped early, after epoch [0-9]*: no epoch better than epoch [0-9]* for 2, the patience is 2' err || fail "patience: $(cat err)"
expect 2 "did you mean 'stop.patience'" train --set stop.pacience=2
expect 2 'stop: patience: expected an integer, 0 to 100000' train --data synthetic --set stop.patience=1000000
# Every rank at the same epoch.
train --out together --processes 2 --timeout 20 --target-error 100 2>err || fail "two processes: $(cat err)"
[ "$(epochs together)" -eq 1 ] && grep -q 'stopped early, after epoch 1' err || fail "two processes: $(cat err)"
expect 0 'stopped early, after epoch 1' train --resume together --timeout 20
# A row of an experiment that its rules ended is done.
cat > early.json <<'END'
{"data": "synthetic", "epochs": 4, "settings": {"subset": 256, "refresh_images": 0, "schedule": {"batch": 64},
 "stop": {"target_error": 100}}, "rows": [{"name": "BN", "blocks": [{"channels": 4, "layer": "BN"}]}]}
END
expect 0 '1 trained now, 0 were done before' reproduce early.json --out experiment --threads 1
expect 0 '0 trained now, 1 were done before' reproduce early.json --out experiment --threads 1
[ "$(epochs experiment/runs/synthetic-BN-seed1)" -eq 1 ] || fail 'reproduce went on with a run that its rules ended'
expect 0 'Report: ' report experiment -o page.html
grep -q incomplete <<<"$output" && fail "a row that its rules ended is incomplete: $output"

# --- runs ----------------------------------------------------------------------------------------
mkdir list && mv whole early patient list/
cp -r list/whole list/damaged && echo '{' > list/damaged/config.json
cp -r list/whole list/cut && sed -i '2s/"test_error_percent"/"x"/' list/cut/metrics.jsonl
cp -r list/whole list/part && sed -i 's/"epochs": 4/"epochs": 9/' list/part/config.json
mkdir list/begun && cp list/whole/config.json list/begun/
cp -r list/whole list/blown && sed -i '4s/"train_loss":.*"time"/"diverged":"loss nan","time"/' list/blown/metrics.jsonl
expect 0 '^8 runs in list$' runs list
also '^whole +BN +synthetic +4/4 +[0-9.]+ +[1-4] +finished +[0-9.]+ +1 +[0-9.]+ +[0-9.]+ +20[0-9-]+ [0-9:]+$'
also '^patient .* finished '
also '^damaged +- +- +4/- .* damaged '
also '^damaged: config.json: line 2, column 1: not JSON'
also '^cut .* damaged '
also '^cut: metrics.jsonl, line 2: test_error_percent: expected a number, found nothing'
also '^part .* 4/9 .* stopped '
also '^begun .* 0/4 +- +- +empty '
also '^blown .* 3/4 .* diverged '
also '^blown: diverged in epoch 4: loss nan'
also '^patient: stopped early: no epoch better'
expect 0 '^no runs in list that match, 8 in all' runs list --layer 'LDL*'
expect 0 '^7 runs in list$' runs list --layer 'B*' --data synthetic --sort changed
expect 0 '^list/whole ' runs list/whole longer
expect 2 'sort: bets not in' runs --sort bets
expect 1 "nowhere: folder: expected one that holds runs, found nothing" runs nowhere
says runs list --json
json out 'len(v["runs"]) == 8 and {r["state"] for r in v["runs"]} == {"finished", "damaged", "stopped", "empty", "diverged"}'
json out 'all(set(r) >= {"path", "state", "layer", "data", "seed", "epochs", "epochs_wanted", "best", "last", "changed", "notes"} for r in v["runs"])'
json out '[r["best"] for r in v["runs"] if r["path"] == "list/begun"] == [None]'
mkdir nothing && says runs nothing --json && json out 'v == {"runs": []}'
# While a process trains, and after it was killed.
(exec "$program" train --config small.json --epochs 1000 --out list/live --quiet) &
pid=$!
for _ in $(seq 300); do [ -s list/live/metrics.jsonl ] && break; sleep 0.05; done
expect 0 '^live .* running ' runs list
kill -9 $pid && wait $pid 2>/dev/null
expect 0 '^live .* stopped ' runs list
# On a terminal the table has its width, and no line is longer.
if command -v script >/dev/null; then
  for width in 60 120; do
    script -qc "stty cols $width; '$program' runs list" /dev/null </dev/null | tr -d '\r' > shown
    grep -q '^whole.* finished' shown || fail "runs on a terminal: $(cat shown)"
    longest=$(sed -n '3,12p' shown | wc -L)
    [ "$longest" -le "$width" ] || fail "runs on a terminal of $width columns: a line of $longest"
  done
fi

# --- compare -------------------------------------------------------------------------------------
train --out list/other --layer 'LDL(1e-5)' --learning-rate 0.05 --epochs 2 --quiet || fail 'another run'
expect 0 '^A +whole +BN +synthetic +4/4 ' compare list/whole list/other
also '^B +other +LDL\(1e-5\) +synthetic +2/2 '
also '^layer +BN +LDL\(1e-5\)$'
also '^schedule.learning_rate +0.125 +0.05$'
also '^epochs +4 +2$'
grep -q $'\033' <<<"$output" && fail 'escapes in a file'
expect 0 '^No setting differs' compare list/whole list/whole
cp -r list/whole list/wider && sed -i '0,/"channels": *4/s//"channels": 5/' list/wider/config.json
expect 0 '^blocks.1.channels +4 +5$' compare list/whole list/wider
[ "$(grep -A9 '^Settings' <<<"$output" | wc -l)" -eq 3 ] || fail "more differs than was changed: $output"
rm -r list/wider
expect 0 '^C: config.json: line 2' compare list/whole list/begun list/damaged
also '^B +begun .* 0/4 +- '
expect 2 'RUN: expected 2 to 26 runs, found 1' compare list/whole
expect 1 'nowhere/config.json: file: expected the config of a run, found none' compare list/whole nowhere
says compare list/whole list/other --json
json out '[r["epochs"] for r in v["runs"]] == [4, 2]'
json out '{"setting": "schedule.learning_rate", "values": [0.125, 0.05]} in v["differences"]'

# --- --json of eval and check --------------------------------------------------------------------
says eval list/whole --json
json out 'v["images"] == 2000 and abs(v["test_error_percent"] - v["wrong"] / 20) < 1e-9 and v["layer"] == "BN"'
json out 'sum(map(sum, v["confusion"])) == 2000 and v["epoch"] >= 1 and v["checkpoint"] == "list/whole/best.safetensors"'
expect 1 '^orthobatch: .*nowhere: cannot open' eval nowhere --json
says check 'ZCA(1e-5)' --json
json out 'v["verdict"] == "ok" and [g["of"] for g in v["gradients"]][0] == "x" and v["gradients"][0]["exact_error"] < 1e-7'
says check 'PLDLP(1e-5,complete)' --spectrum equal --json
json out 'v["gradients"][0]["exact_error"] is None and v["why_no_gradient"]'
"$program" check 'LDL(1e-5,gradient=paper)' --json >out 2>err
[ $? -eq 1 ] || fail 'check --json: a gradient that is off'
json out 'v["verdict"] == "OFF"'

# --- a mistake on the command line: exit code 2, one in a file 1 -----------------------------------
mkdir -p pictures/a pictures/b
expect 2 "did you mean 'flat'" train --head flatt
expect 2 'padding: expected valid or same' train --config small.json --padding wide
expect 2 "did you mean 'synthetic'" train --data synthetc
expect 2 'expected WIDTHxHEIGHT' train --data pictures --image-size 32
expect 2 'expected WIDTHxHEIGHT' data show pictures --image-size 32
expect 2 'batch: expected an integer' train --config small.json --set schedule.batch=0
expect 2 'head: expected' train --config small.json --set head=flatt
expect 2 'expected 1, or 2 for the blocks' train --config small.json --layer BN --layer BN --layer BN
expect 2 'seed' train --resume list/whole --set seed=3
expect 2 'batch: expected' train --resume list/whole --set schedule.batch=0
expect 2 "did you mean 'mnist'" reproduce mnst --out new
expect 2 "no row of mnist matches 'nothing'" reproduce mnist --rows nothing --out new
expect 2 "did you mean 'flat'" reproduce mnist --head flatt --out new
expect 2 'expected -o FILE.onnx' export list/whole
expect 2 'ends in .onnx or .pt' export list/whole -o a.txt
expect 2 "did you mean 'bytes'" export list/whole -o a.onnx --input byte
expect 2 'from: expected only with mnist' data get svhn --from .
expect 2 "did you mean 'mnist'" eval list/whole --data mnst
expect 2 "no method is named 'ZCX'" layers ZCX
echo '{"data": "synthetic", "head": "flatt"}' > wrong.json
expect 1 'wrong.json: head: expected' train --config wrong.json
expect 1 'wrong.json: head: expected' train --config wrong.json --epochs 1
expect 1 'there is none|none, expected|expected .* found none' train --resume pictures
[ ! -e new ] || fail 'a mistake left a folder'

# --- report --json: as everywhere, in place of the tables -----------------------------------------
says report list/whole -o page.html --json
json out 'v["experiments"][0]["rows"][0]["name"] == "BN" and v["steady_ratio"] == 1.5'
# One definition of seconds per epoch: the table's, where a report has any.
"$program" runs list --json >runs.json
json runs.json 'any(r["path"] == "list/whole" and r["seconds_per_epoch"] > 0 for r in v["runs"])'
python3 - <<'END' || fail 'seconds per epoch: runs and report differ'
import json
report = json.load(open("out"))["experiments"][0]["rows"][0]
runs = [r for r in json.load(open("runs.json"))["runs"] if r["path"] == "list/whole"]
own = runs[0]["seconds_per_epoch"]
assert report["epoch_seconds"] is None and not report["runs"][0]["steady"] or abs(report["epoch_seconds"] / own - 1) < 1e-4, (report["epoch_seconds"], own)
END
# What a report of heat maps and filters is drawn from; and it has not the paper's title.
[ -s list/whole/pictures.json ] || fail 'train leaves no pictures.json'
grep -q '"filters":{' page.html || fail 'no filters in a report of own runs'

# --- lines on a terminal of 80 columns ------------------------------------------------------------
if command -v script >/dev/null; then
  script -qec "stty cols 80; '$program' train --config small.json --out on-terminal" typescript >/dev/null 2>&1
  grep -v '^Script ' typescript | tr '\r' '\n' | sed 's/\x1b\[K//g' > lines
  grep -q 'epoch 4/4: test error' lines || fail "no line of an epoch: $(cat lines)"
  awk 'length > 80' lines | grep . && fail 'lines of more than 80 columns'
fi

[ "$failures" -eq 0 ] && echo 'housekeeping: all as expected'
exit "$failures"
