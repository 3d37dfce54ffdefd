#!/usr/bin/env bash
# A run on a disk that fills: the checkpoint before stays, and the run goes on once there is room.
# usage: test_full_disk.sh PROGRAM
# The disk is a small tmpfs; where it may not be mounted the exit code is 77 (skipped).
source "$(dirname "$0")/program.sh" "$1"
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT

cat > config.json <<'JSON'
{"blocks": [{"channels": 8}, {"fov": 4, "stride": 2, "channels": 16}], "epochs": 3}
JSON
train() { "$program" train --config config.json --data synthetic --layer 'ZCA(1e-5)' --subset 2048 --threads 1 "$@"; }
# metrics RUN: without what depends on the clock
metrics() { sed 's/,"time":.*//' "$1/metrics.jsonl"; }

mkdir small
mount -t tmpfs tmpfs small 2>/dev/null || {
  echo 'full disk: SKIPPED, no small disk may be mounted here'
  exit 77
}
train --out whole --quiet || fail 'a plain run'
room=$((6 * $(cat whole/last.* | wc -c) / 1024))k  # last, previous, best, the next one, and some
mount -o remount,size="$room" small || fail 'the disk cannot be made small'
train --out small/run --epochs 1 --quiet || fail 'a run on a small disk'
before=$(md5sum small/run/last.*)
head -c "$room" /dev/zero > small/filler 2>/dev/null
truncate -s -16k small/filler  # room for config.json, not for a checkpoint
expect 1 'No space left.*intact' train --resume small/run --epochs 3
[ "$(md5sum small/run/last.*)" = "$before" ] || fail 'a full disk cost the checkpoint'
rm small/filler
expect 0 'best epoch' train --resume small/run --epochs 3
[ "$(metrics whole)" = "$(metrics small/run)" ] || fail 'the run on the disk that was full differs'

[ "$failures" -eq 0 ] && echo 'full disk: all as expected'
exit "$failures"
