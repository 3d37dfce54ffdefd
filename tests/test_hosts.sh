#!/usr/bin/env bash
# Two hosts, each a network namespace of its own, train over their addresses; then the link between them is cut.
# usage: test_hosts.sh PROGRAM
# Where namespaces may not be made the exit code is 77 (skipped).
source "$(dirname "$0")/program.sh" "$1"
here=orthobatch-$$-a there=orthobatch-$$-b
cleanup() {
  kill $(jobs -p) 2>/dev/null
  ip netns del $here 2>/dev/null
  ip netns del $there 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
{ ip netns add $here && ip netns add $there &&
  ip link add veth-a netns $here type veth peer name veth-b netns $there &&
  ip -n $here addr add 10.77.0.1/24 dev veth-a && ip -n $there addr add 10.77.0.2/24 dev veth-b &&
  ip -n $here link set veth-a up && ip -n $there link set veth-b up &&
  ip -n $here link set lo up && ip -n $there link set lo up; } 2>/dev/null || {
  echo 'hosts: SKIPPED, no network namespaces may be made here'
  exit 77
}

cat > config.json <<'EOF'
{"blocks": [{"channels": 8}, {"fov": 4, "stride": 2, "channels": 16}], "checkpoint_minutes": 0.002}
EOF
size=2
# on HOST RANK ARGUMENTS…
on() {
  local host=$1 rank=$2
  shift 2
  RANK=$rank WORLD_SIZE=$size MASTER_ADDR=10.77.0.1 MASTER_PORT=29400 exec ip netns exec "$host" "$program" train \
    --config config.json --data synthetic --layer 'ZCA(1e-5)' --subset 1000 --threads 1 --timeout $timeout "$@"
}
# wait_until CONDITION…: waits for it, 20 s at most
wait_until() {
  for _ in $(seq 1000); do "$@" 2>/dev/null && return; sleep 0.02; done
  fail "waited in vain for: $*"
}
# both_fail WHAT: both ranks, within 12 s
both_fail() {
  local begun=$SECONDS
  wait $one && fail "$1: rank 0 ended well"
  wait $other && fail "$1: rank 1 ended well"
  [ $((SECONDS - begun)) -le 12 ] || fail "$1: noticed after $((SECONDS - begun)) s"
}

timeout=20
(on $there 1 --epochs 1 --out run 2>err1) &
(on $here 0 --epochs 1 --out run 2>err0) || fail "rank 0: $(cat err0)"
wait $! || fail "rank 1: $(cat err1)"
grep -q 'best epoch' err0 || fail "rank 0 says: $(cat err0)"

timeout=3
(on $there 1 --epochs 500 --out cut 2>err1) &
other=$!
(on $here 0 --epochs 500 --out cut 2>err0) &
one=$!
wait_until test -e cut/previous.safetensors
ip -n $here link set veth-a down
both_fail 'a link that was cut'
grep -q 'rank 0: no answer from rank 1 (.*): killed, stopped, or cut off.*--resume cut' err0 || fail "rank 0 says: $(cat err0)"
grep -q 'rank 1: no answer from rank 0 (10.77.0.1:29400): killed, stopped, or cut off.*--resume cut' err1 ||
  fail "rank 1 says: $(cat err1)"
ip -n $here link set veth-a up

# Cut while the ranks still wait for a third.
size=3
(on $there 1 --out never 2>err1) &
other=$!
(on $here 0 --out never 2>err0) &
one=$!
joined() { ip netns exec $there ss -Htn state established 'dport = :29400' | grep -q .; }
wait_until joined
ip -n $here link set veth-a down
both_fail 'a link that was cut before the start'
grep -q 'rank 0: no answer within 3 s from .*rank 2 (not started' err0 || fail "rank 0, before the start: $(cat err0)"
grep -q 'rank 1: no answer from rank 0 (10.77.0.1:29400).*start all ranks again' err1 ||
  fail "rank 1, before the start: $(cat err1)"

expect 0 'best epoch' train --resume cut --processes 1 --epochs $(($(wc -l < cut/metrics.jsonl) + 1))

[ "$failures" -eq 0 ] && echo 'hosts: all as expected'
exit "$failures"
