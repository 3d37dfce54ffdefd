#!/usr/bin/env bash
# Experiments as their user treats them: stopped, started again, with rows that diverge or fail, with damaged files.
# usage: test_reproduce.sh PROGRAM SOURCE
source "$(dirname "$0")/program.sh" "$1"
source=$2

# metrics DIR: of all runs, without what depends on the clock
metrics() { (cd "$1/runs" && for run in */; do echo "$run"; sed 's/,"time":.*//' "$run/metrics.jsonl"; done); }

cat > tiny.json <<'JSON'
{"title": "Tiny", "data": "synthetic", "epochs": 2, "seeds": [1],
 "settings": {"subset": 1024, "refresh_images": 500, "schedule": {"batch": 128}},
 "rows": [
   {"name": "BN", "blocks": [{"channels": 6, "layer": "BN"}, {"fov": 4, "stride": 4, "channels": 8, "layer": "BN"}],
    "paper": {"error_percent": 0.39, "epoch": 49}},
   {"name": "ZCA", "blocks": [{"channels": 6, "layer": "ZCA(1e-5)"}, {"fov": 4, "stride": 4, "channels": 8, "layer": "ZCA(1e-5)"}],
    "seeds": [1, 2]},
   {"name": "wild", "blocks": [{"channels": 6, "layer": "BN"}, {"fov": 4, "stride": 4, "channels": 8, "layer": "BN"}],
    "settings": {"schedule": {"learning_rate": 1e30}}}
 ],
 "figures": [{"title": "All", "rows": ["*"]}, {"title": "Best", "best": 1}]}
JSON
run() { "$program" reproduce tiny.json --threads 1 "$@"; }

# --- how long it will take -------------------------------------------------------------------------
run --out whole --dry-run > out 2> err || fail "--dry-run: $(cat out err)"
grep -qE '^3 rows, 4 runs to train, 8 epochs of about [0-9:]+: about [0-9:]+ in all$' out || fail "--dry-run says: $(cat out err)"
[ ! -e whole ] || fail "--dry-run wrote $(ls whole)"

# --- a whole experiment --------------------------------------------------------------------------
run --out whole > out 2> err || fail "reproduce: exit $?: $(cat out err)"
grep -qE '^BN +0.39 +49 +[0-9.]+ ' out || fail "no row of BN in: $(cat out)"
grep -qE '^ZCA .*[0-9] ± [0-9]' out || fail "no deviation over the seeds in: $(cat out)"
grep -qE '^wild .*diverged in epoch 1' out || fail "a diverged row: $(cat out)"
grep -qE '^wild .*[0-9]\.[0-9]+ +[0-9]' out && fail "a diverged row has a number: $(cat out)"
head -n 1 err | grep -q '^3 rows, 4 runs to train, 8 epochs of about ' || fail "what it will do is not said first: $(cat err)"
grep -qE '^\[2/4\] ZCA, seed 1 on synthetic: epoch 1 to 2, about [0-9:]+ left in all' err || fail "no overall progress in: $(cat err)"
grep -q '3 trained now, 0 were done before, 1 diverged, 0 failed' out || fail "the count of runs: $(cat out)"
[ -s whole/report.html ] || fail 'no report'
[ -s whole/runs/synthetic-ZCA-seed1/pictures.json ] || fail 'no pictures'
[ -e whole/runs/synthetic-ZCA-seed2/pictures.json ] && fail 'pictures of a second seed'

# --- again: nothing to do, nothing changed -------------------------------------------------------
before=$(find whole/runs -name last.safetensors -exec md5sum {} + | sort)
run --out whole > out 2> err || fail "reproduce again: $(cat err)"
grep -q '0 trained now, 4 were done before' out || fail "runs made again: $(cat out)"
grep -q '^nothing to train: 4 of 4 runs are done$' err || fail "what there is to do: $(cat err)"
[ "$(find whole/runs -name last.safetensors -exec md5sum {} + | sort)" = "$before" ] || fail 'a finished run was changed'

# --- stopped in the middle, started again --------------------------------------------------------
(exec "$program" reproduce tiny.json --threads 1 --out stopped > /dev/null 2> err) &
pid=$!
for _ in $(seq 600); do grep -qs '"epoch":1' stopped/runs/synthetic-ZCA-seed1/metrics.jsonl && break; sleep 0.02; done
kill -TERM $pid  # as Ctrl-C; a background process of a script ignores SIGINT itself
wait $pid
code=$?
[ $code -eq 143 ] || fail "stopped: expected exit 143, got $code: $(cat err)"
grep -q 'the same command continues' err || fail "stopped: no hint in: $(cat err)"
grep -q 'another process' err && fail "stopped: the only process speaks of another: $(cat err)"
[ -e stopped/runs/synthetic-ZCA-seed2 ] && fail 'the next row was begun after the stop'
run --out stopped > out 2> err || fail "going on: $(cat err)"
grep -qE '[12] trained now, [12] were done before' out || fail "going on made more than was missing: $(cat out)"
grep -q ' BN, seed 1 on' err && fail 'a finished row was trained again'
[ "$(metrics stopped)" = "$(metrics whole)" ] || fail 'the stopped experiment has other numbers'

# --- two processes share the runs ----------------------------------------------------------------
run --out shared > out1 2> err1 &
pid=$!
run --out shared > out2 2> err2 || fail "the second of two: exit $?: $(cat err2)"
wait $pid || fail "the first of two: exit $?: $(cat err1)"
trained=$(($(sed -n 's/^\([0-9]*\) trained now.*/\1/p' out1 out2 | paste -sd+)))
[ "$trained" = 3 ] || fail "two processes trained $trained runs, expected 3: $(cat out1 out2)"
[ "$(metrics shared)" = "$(metrics whole)" ] || fail 'two processes have other numbers'
for out in out1 out2; do grep -qE '^ZCA .*[0-9] ± [0-9]' $out || fail "one of two ended before all was there: $(cat $out)"; done
grep -q 'shared by 2 processes' err1 err2 || fail "neither of two counts the other: $(cat err1 err2)"

# --- more epochs, some rows, other settings ------------------------------------------------------
expect 0 '1 trained now' reproduce tiny.json --threads 1 --out stopped --rows BN --epochs 3
grep -q '"epoch":3' stopped/runs/synthetic-BN-seed1/metrics.jsonl || fail 'no third epoch'
grep -q '"name": "ZCA"' stopped/tiny.experiment.json || fail 'rows that were not chosen left the report'
expect 1 'config.json: subset: expected 500, found 1024.*another --out' reproduce tiny.json --subset 500 --out stopped
expect 2 "no row of tiny matches 'LDL', expected BN, ZCA or wild" reproduce tiny.json --rows LDL --out new
expect 2 "did you mean 'mnist'" reproduce mnits --out new
expect 2 'out is required' reproduce mnist
sed 's/"epochs": 2/"epoks": 2/' tiny.json > bad.json
expect 1 "bad.json: no setting 'epoks'.*did you mean 'epochs'" reproduce bad.json --out new
sed 's/"layer": "ZCA(1e-5)"/"layer": "ZCB(1e-5)"/' tiny.json > bad.json
expect 1 "bad.json: rows\[1\]: .*ZCB" reproduce bad.json --out new
sed 's/"refresh_images": 500/"threads": 1/' tiny.json > bad.json
expect 1 "settings: expected no 'threads' here \(reproduce takes it as --threads\), found 1" reproduce bad.json --out new
sed 's/"name": "BN"/"layer": "BN"/' tiny.json > bad.json
expect 1 'rows\[0\]: layer: expected a block that takes it' reproduce bad.json --out new
sed 's/"seeds": \[1, 2\]/"seeds": [1, 18446744073709551615]/' tiny.json > bad.json
expect 1 'rows\[1\]: seeds: expected a list of integers, 0 to 9223372036854775807' reproduce bad.json --out new
cp tiny.json $'tiny\xff.json'
expect 1 'expected a file whose name is UTF-8' reproduce $'tiny\xff.json' --out new
expect 1 'mnist/train-images-idx3-ubyte: file: expected' reproduce mnist --data-dir nowhere --out new
[ -e new ] && [ -n "$(ls new)" ] && fail 'something was left by a refused experiment'

# --- a row that fails does not stop the rest -----------------------------------------------------
cp -r whole failing
head -c 5000 whole/runs/synthetic-BN-seed1/last.safetensors | tee failing/runs/synthetic-BN-seed1/last.safetensors > failing/runs/synthetic-BN-seed1/previous.safetensors
run --out failing --epochs 3 > out 2> err && fail 'a failed row: exit 0'
grep -qE '^BN .*failed after 2 epochs: .*last.safetensors: (header|tensors): expected' out || fail "a failed row is not in the table: $(cat out)"
grep -q '2 trained now, 1 were done before, 1 diverged, 1 failed' out || fail "a failed row stopped the rest: $(cat out)"
cp whole/runs/synthetic-BN-seed1/*.safetensors failing/runs/synthetic-BN-seed1/
run --out failing --epochs 3 > out 2>&1 || fail "mended, and still: $(cat out)"
[ -e failing/runs/synthetic-BN-seed1/failed.txt ] && fail 'a mended row still says it failed'

# --- a row that blows up between steps diverged, and is ranked as such ---------------------------
# One step an epoch: the first that meets the weights is the evaluation.
sed 's/"batch": 128/"batch": 1024/; s/"refresh_images": 500/"refresh_images": 0/' tiny.json > once.json
sed 's/"batch": 128/"batch": 1024/' tiny.json > refreshed.json
for file in once.json refreshed.json; do
  "$program" reproduce $file --threads 1 --rows wild --out "blown-$file" > out 2> err || fail "$file: exit $?: $(cat out err)"
  grep -qE '^wild .*diverged in epoch 1' out || fail "$file: a run that blew up between steps: $(cat out err)"
  grep -q '0 trained now, 0 were done before, 1 diverged, 0 failed' out || fail "$file: the count: $(cat out)"
  grep -q '"diverged":' "blown-$file/runs/synthetic-wild-seed1/metrics.jsonl" || fail "$file: not in metrics.jsonl"
done

# --- report: from metrics alone, whatever state they are in --------------------------------------
expect 0 'Report: page.html' report whole -o page.html
grep -q 'id="results"' page.html || fail 'no results in the page'
first_error=$(sed -n 's/.*"test_error_percent":\([0-9.]*\).*/\1/p' whole/runs/synthetic-BN-seed1/metrics.jsonl | head -1)
sed -i "s/\"test_error_percent\":$first_error/\"test_error_percent\":1.2345/" whole/runs/synthetic-BN-seed1/metrics.jsonl
expect 0 '^BN .* 1\.23 ' report whole -o page.html
grep -q '1\.2345' page.html || fail 'an edited metric does not change the page'
sed -i '1s/.*/{"epoch":1,"tra/' whole/runs/synthetic-ZCA-seed1/metrics.jsonl
expect 0 '^ZCA .*metrics.jsonl, line 1: expected an object' report whole -o page.html
expect 0 '^BN .* 1\.23 ' report whole -o page.html
rm whole/runs/synthetic-ZCA-seed2/metrics.jsonl
expect 0 '^ZCA .*0 of 2 epochs \(seed 2\).*metrics.jsonl: there is none' report whole -o page.html
expect 0 'Runs on synthetic' report whole/runs/synthetic-BN-seed1 -o page.html
expect 1 'nowhere: folder: expected a run' report nowhere
grep -q '"samples":{"synthetic":{' page.html || fail 'the page has no samples'
expect 0 'Report' report whole -o small.html --no-samples
grep -q '"samples":null' small.html || fail '--no-samples: samples in the page'

# --- nothing of this machine in the lock file ----------------------------------------------------
grep -qE 'resolved|https?:' "$source/package-lock.json" && fail 'package-lock.json has addresses'

[ "$failures" -eq 0 ] && echo 'reproduce: all as expected'
exit "$failures"
