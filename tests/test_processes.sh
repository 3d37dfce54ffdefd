#!/usr/bin/env bash
# Runs of several processes: the run of one, the same twice, resumed with another number; what becomes of them
# when a rank or their launcher is killed, stopped, asked to end, or does not fit the others; a full disk.
# usage: test_processes.sh PROGRAM [KILLS]
kills=${2:-2}
source "$(dirname "$0")/program.sh" "$1"
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT

# metrics RUN: without what depends on the clock
metrics() { sed 's/,"time":.*//' "$1/metrics.jsonl"; }
same() { [ "$(metrics "$1")" = "$(metrics "$2")" ] && [ -n "$(metrics "$1")" ]; }
# tensors RUN: the bytes of the last checkpoint behind its texts
tensors() { tail -c 20000 "$1/last.safetensors" | md5sum; }
# close RUN RUN [LOSSES]: the losses of the first epoch within 1e-5 of each other; rounding grows as training goes on,
# so later ones within 2e-3
close() {
  paste <(losses "$1") <(losses "$2") | head -n "${3:-1000}" | awk '
    { d = $1 > $2 ? $1 - $2 : $2 - $1 }
    NF != 2 || d > (NR <= 2 ? 1e-5 : 2e-3) { bad = 1 } END { exit bad || NR < 2 }'
}
losses() { grep -oE '"(train|test)_loss":[0-9.e-]*' "$1/metrics.jsonl" | cut -d: -f2; }

settings="--data synthetic --layer ZCA(1e-5) --subset 1000 --threads 1"
timeout=20
cat > config.json <<'EOF'
{"blocks": [{"channels": 8}, {"fov": 4, "stride": 2, "channels": 16}], "epochs": 1, "refresh_images": 501,
 "checkpoint_minutes": 0.002, "schedule": {"batch": 125}}
EOF
train() { "$program" train --config config.json $settings --timeout $timeout "$@"; }
# start ARGUMENTS…: in the background; its own process id is in $pid
start() {
  (exec "$program" train --config config.json $settings --timeout $timeout "$@") &
  pid=$!
}
# wait_until CONDITION…: waits for it, 20 s at most
wait_until() {
  for _ in $(seq 1000); do "$@" 2>/dev/null && return; sleep 0.02; done
  fail "waited in vain for: $*"
}
# trains FOLDER: waits until its first steps are made
trains() { wait_until test -e "$1/previous.safetensors"; }
# ranks: the processes of the run just started, rank by rank
ranks() { pgrep -P "$pid" | sort -n; }
gone() { ! kill -0 "$@"; }
# lasts SECONDS COMMAND…: no longer than that
lasts() {
  local limit=$1 begun=$SECONDS
  shift
  "$@"
  local code=$?
  [ $((SECONDS - begun)) -le "$limit" ] || fail "$*: took $((SECONDS - begun)) s, $limit were allowed"
  return $code
}

# --- a rank hangs after the first epoch: looked at further down -----------------------------------
timeout=2 start --out hung --processes 3 --epochs 500 2>hung.err
hung=$pid
wait_until grep -qs test_loss hung/metrics.jsonl
stopped=$(ranks | sed -n 2p)
kill -STOP "$stopped"

# --- the same run --------------------------------------------------------------------------------
train --out one --quiet || fail 'a run of one process'
train --out two --processes 2 >out 2>err || fail "a run of two: $(cat err)"
grep -q '2 processes with 1 thread each' err || fail "no word of the processes: $(cat err)"
grep -q '[0-9.]* % between processes' err || fail "no share of time between processes: $(cat err)"
[ "$(grep -c '^epoch 1/1' err)" -eq 1 ] || fail "not one line an epoch: $(cat err)"
close one two || fail "two processes are not one: $(paste <(losses one) <(losses two))"
close one hung 2 || fail "three processes are not one: $(paste <(losses one) <(losses hung))"
port=$((20000 + $$ % 10000))  # below those that connections are given
# rank RANK SIZE ARGUMENTS…: as started by others
rank() {
  local rank=$1 size=$2
  shift 2
  RANK=$rank WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train "$@"
}
rank 1 2 --out again --quiet 2>err1 &
rank 0 2 --out again --quiet || fail 'ranks of the environment'
wait $! || fail "rank 1 of the environment: $(cat err1)"
same two again || fail 'two processes gave another run the second time'
[ "$(tensors two)" = "$(tensors again)" ] || fail 'two processes gave other weights the second time'
expect 0 'best epoch' train --resume two --processes 1 --epochs 2
expect 0 'between processes' train --resume one --processes 2 --epochs 2
close one two || fail "resumed with another number of processes: $(paste <(losses one) <(losses two))"

lasts 10 wait $hung && fail 'a run whose rank 1 hangs ended well'
for rank in 0 2; do
  grep -q "rank $rank: no answer from rank 1 (.*process $stopped): killed, stopped.*--resume hung" hung.err ||
    fail "a rank that hangs, on $rank: $(cat hung.err)"
done
gone "$stopped" 2>/dev/null || fail 'a rank that hangs is still there'
expect 0 'best epoch' train --resume hung --processes 1 --epochs $(($(wc -l < hung/metrics.jsonl) + 1))

# --- a rank is killed ----------------------------------------------------------------------------
train --out long --processes 2 --epochs 4 --quiet || fail 'a longer run of two'
start --out killed --processes 2 --epochs 4 2>err
RANDOM=11
for k in $(seq "$kills"); do
  [ -e killed/metrics.jsonl ] || trains killed
  sleep "0.$((RANDOM % 10))"
  victim=$(ranks | shuf -n 1 --random-source=<(yes $k))
  kill -9 "$victim" 2>/dev/null && wait $pid 2>/dev/null && fail "a run without rank $victim ended well"
  wait $pid 2>/dev/null
  (exec "$program" train --resume killed --timeout 20 2>err) &
  pid=$!
done
wait $pid || fail "the run whose ranks were killed did not end well: $(cat err)"
same long killed || fail 'the run whose ranks were killed differs'

start --out lost --processes 2 --epochs 500 2>err
trains lost
# The ranks are connected over loopback, and their launcher to nobody.
ss -Htanp > sockets
for process in $(ranks); do
  grep "pid=$process," sockets | awk '{ print $4 }' > own
  [ -s own ] || fail "$process has no connection"
  grep -v '^127\.0\.0\.1:' own && fail "a socket elsewhere than on loopback: $(cat own)"
done
grep "pid=$pid," sockets && fail 'the launcher has a socket'
# It is killed in the middle of a record in their store: here the length of a key that never comes.
for file in /proc/$pid/fd/*; do
  [[ $(readlink "$file") == /memfd:store* ]] && printf '\x40\0\0\0\0\0\0\0' >> "$file" && halved=1
done
[ -n "$halved" ] || fail 'the launcher has no store'
kill -9 "$(ranks | tail -n 1)"
lasts 3 wait $pid
[ $? -eq 1 ] || fail 'a killed rank: the exit code is not 1'
grep -q 'rank 0: rank 1 (process [0-9]*) was ended by signal 9 .*--resume lost' err || fail "a killed rank: $(cat err)"

# --- asked to end --------------------------------------------------------------------------------
start --out asked --processes 2 --epochs 500 2>err
trains asked
kill -TERM "$(ranks | tail -n 1)"
wait $pid
[ $? -eq 143 ] || fail 'SIGTERM on a rank: another exit code'
grep -q 'stopped in epoch .* --resume asked' err || fail "SIGTERM on a rank: $(cat err)"
start --out told --processes 2 --epochs 500 2>err
trains told
kill -TERM $pid
wait $pid
[ $? -eq 143 ] || fail 'SIGTERM: another exit code'
grep -q 'stopped in epoch .* --resume told' err || fail "SIGTERM: $(cat err)"
# The launcher is killed, whose threads each leave the ranks a signal: they save all the same.
for orphan in orphan1 orphan2 orphan3; do
  start --out $orphan --processes 2 --epochs 500 2>err
  trains $orphan
  children=$(ranks)
  kill -9 $pid
  wait $pid 2>/dev/null
  wait_until gone $children
  grep -q "stopped in epoch .* --resume $orphan" err || fail "the launcher was killed: $(cat err)"
  [ "$(wc -l < err)" -le "$(($(grep -c ^epoch err) + 2))" ] || fail "the launcher was killed, more than one line: $(cat err)"
done

# --- do not fit ---------------------------------------------------------------------------
# both WHY RANK-1'S-ARGUMENTS…: what rank 0 and rank 1 say
both() {
  port=$((port + 1))
  local why=$1
  shift
  "$@" >out1 2>err1 &
  rank 0 2 --out unfit >out 2>err && fail "$why: rank 0 ended well"
  wait $! && fail "$why: rank 1 ended well"
  grep -qE "$why" err || fail "$why: rank 0 says: $(cat err)"
  grep -qE "$why" err1 || fail "$why: rank 1 says: $(cat err1)"
  [ "$(cat err err1 | grep -cv OpenBLAS)" -eq 2 ] || fail "$why: not a line each: $(cat err err1)"
  [ -e unfit ] && fail "$why: a folder was made"
}
both 'rank 1: settings differ: config.schedule.batch: expected 125 as rank 0 has, found 64' \
  rank 1 2 --out unfit --batch 64
both 'rank 1: settings differ: WORLD_SIZE: expected 2 as rank 0 has, found 3' rank 1 3 --out unfit
settings=${settings/synthetic/mnist}
both 'rank [01] ended: .*mnist.*|^orthobatch: rank [01]: .*mnist.*' rank 1 2 --out unfit --data-dir "$work"
settings=${settings/mnist/synthetic}
# RANK 1 twice, while rank 2 is missing
port=$((port + 1))
rank 0 3 --out unfit >out 2>err &
rank 1 3 --out unfit >out 2>err1 &
rank 1 3 --out unfit >out 2>err2 && fail 'RANK 1 twice'
wait
for file in err err1 err2; do
  grep -q 'two processes have RANK 1: .*process' $file || fail "RANK 1 twice, $file: $(cat $file)"
done
port=$((port + 1))
timeout=1
rank 0 3 --out unfit >out 2>err &
first=$!
(port=$((port + 1)) && rank 1 2 --out unfit >out 2>err1) && fail 'a rank 0 that never came'
wait $first && fail 'a rank that never came'
grep -q 'no answer within 1 s from rank 1 (not started.*), rank 2 (not started' err || fail "ranks that never came: $(cat err)"
grep -q 'no store at 127.0.0.1:.*: expected rank 0' err1 || fail "a rank 0 that never came: $(cat err1)"
[ "$(cat err err1 | grep -cv OpenBLAS)" -eq 2 ] || fail "not a line each: $(cat err err1)"
timeout=20
# Rank 0 is killed while the ranks wait for rank 2.
port=$((port + 2))
rank 0 3 --out unfit >out 2>err &
first=$!
rank 1 3 --out unfit >out 2>err1 &
second=$!
connected() { ss -Htnp "dport = :$port" | grep -q "pid=$(pgrep -P $second),"; }
wait_until connected
kill -9 "$(pgrep -P $first)"
lasts 3 wait $second && fail 'rank 0 was killed early: rank 1 ended well'
grep -q "no answer from rank 0 (127.0.0.1:$port): killed.*start all ranks again" err1 ||
  fail "rank 0 was killed early: $(cat err1)"

# Its connections are reset, first the one on which nothing was asked: c10d's own thread there must not end the process.
port=$((port + 1))
python3 -c "
import select, socket, struct, time
store = socket.socket()
store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
store.bind(('127.0.0.1', $port))
store.listen()
open('listens', 'w').close()
all = [store.accept()[0]]
store.settimeout(2)  # LibTorch 2 has no second connection
try: all.append(store.accept()[0])
except socket.timeout: pass
asked = select.select(all, [], [])[0]
for s in [s for s in all if s not in asked] + asked:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
    time.sleep(0.5)" &
wait_until test -e listens
rm listens
rank 1 2 --out unfit >out 2>err1
[ $? -eq 1 ] || fail 'connections to rank 0 were reset: another exit code'
# From 2.14 on the store is asked while it is opened, so there it is no store.
grep -qE "no answer from rank 0 \(127.0.0.1:$port\): killed|no store at 127.0.0.1:$port: expected rank 0 to run there" err1 ||
  fail "connections to rank 0 were reset: $(cat err1)"

# A stranger keeps the store of rank 0 busy: a byte of a request, zeros, a length beyond all memory. The ranks stop when
# they are told to, and end after the last epoch.
for epochs in 5000 4; do
  port=$((port + 1)) run=busy$epochs
  rank 1 2 --out $run --epochs $epochs --quiet >out 2>err1 &
  second=$!
  RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port start --out $run --epochs $epochs --quiet 2>err
  trains $run
  python3 -c "
import socket, time
all = [socket.create_connection(('127.0.0.1', $port)) for _ in range(3)]
for s, data in zip(all, (bytes([1]), bytes(20), bytes([0]) + bytes([255] * 8))): s.sendall(data)
open('busy', 'w').close()
time.sleep(60)" &
  stranger=$!
  wait_until test -e busy
  rm busy
  [ $epochs = 4 ] || { sleep 1 && kill -INT $pid; }
  lasts 20 wait $pid
  code=$?
  [ $code -eq $([ $epochs = 4 ] && echo 0 || echo 130) ] || fail "a stranger at the store: rank 0 ends with $code: $(cat err)"
  lasts 20 wait $second
  code=$?
  [ $code -eq $([ $epochs = 4 ] && echo 0 || echo 143) ] || fail "a stranger at the store: rank 1 ends with $code: $(cat err1)"
  kill $stranger
done

port=$((port + 1))  # nobody has used it yet
python3 -c "
import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', $port))
s.listen(1)
open('listens', 'w').close()
time.sleep(30)" &
listener=$!
wait_until test -e listens
rank 0 2 --out unfit >out 2>err && fail 'a port in use'
grep -q "no store at 127.0.0.1:$port: .*Address already in use" err || fail "a port in use: $(cat err)"
kill $listener
# with VARIABLE=VALUE… CODE PATTERN ARGUMENTS…
with() {
  local variables=()
  while [[ $1 == *=* ]]; do variables+=("$1"); shift; done
  export "${variables[@]}"
  expect "$@"
  unset "${variables[@]%%=*}"
}
with RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 MASTER_PORT=$port \
  1 'no store at 192.0.2.1' train --data synthetic --timeout 1
with RANK=2 WORLD_SIZE=2 2 'RANK: expected a whole number, 0 to 1' train --data synthetic
with RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
  2 'processes: expected WORLD_SIZE, 2' train --data synthetic --processes 3
expect 2 'batch: expected an image for each of 3 processes' train --data synthetic --batch 2 --processes 3
expect 1 'an image of a batch for each of 3 processes, found 2 images' train --data synthetic --subset 2 --processes 3 \
  --out few

# --- reproduce -----------------------------------------------------------------------------------
cat > rows.json <<'EOF'
{"title": "Two", "data": "synthetic", "epochs": 1, "seeds": [1],
 "settings": {"subset": 500, "refresh_images": 0},
 "rows": [{"name": "one", "layer": "BN", "blocks": [{"channels": 8}]},
          {"name": "other", "layer": "PLDLP(1e-5)->W->Gamma", "blocks": [{"channels": 8}]}]}
EOF
sed s/layer/leyer/ rows.json > wrong.json
expect 1 'no setting .leyer' reproduce wrong.json --processes 2 --out rows
[ "$(wc -l <<<"$output")" -eq 1 ] || fail "a mistake is told more than once: $output"
"$program" reproduce rows.json --processes 2 --timeout 20 --out rows >out 2>err || fail "reproduce: $(cat err)"
grep -q '2 trained now, 0 were done before' out || fail "reproduce: $(cat out)"
grep -q '"processes": 2' rows/runs/*other*/config.json || fail 'reproduce: not two processes'
"$program" reproduce rows.json --processes 2 --epochs 2 --out rows >out 2>err || fail "reproduce again: $(cat err)"
grep -q '2 trained now' out || fail "reproduce again: $(cat out)"

# --- a full disk on rank 0 -----------------------------------------------------------------------
mkdir small
if mount -t tmpfs -o size=4m tmpfs small 2>/dev/null; then
  cp -r again small/run
  before=$(md5sum small/run/last.*)
  head -c 4m /dev/zero > small/filler 2>/dev/null
  truncate -s -16k small/filler
  expect 1 'rank 1: rank 0 ended: .*No space left.*' train --resume small/run --epochs 4 --timeout 20
  [ "$(md5sum small/run/last.*)" = "$before" ] || fail 'a full disk cost the checkpoint'
  rm small/filler
  expect 0 'best epoch' train --resume small/run --epochs 4
  same small/run long || fail 'the run on the disk that was full differs'
fi

[ "$failures" -eq 0 ] && echo 'processes: all as expected'
exit "$failures"
