#!/bin/sh
# The full counts, hours of them: what `make test` samples. Ends with `N passed, N failed` over all.
#
#   tools/soak.sh BUILD
#
# SOAK divides every count (SOAK=100 is a rehearsal of some minutes). What was counted is in
# BUILD/soak/*.log, and the figures that the tests print in BUILD/soak/*.txt.
set -u
build=$1
part=${SOAK:-1}
logs=$build/soak
tools=$(dirname "$0")
mkdir -p "$logs"
rm -f "$logs"/*
verdicts=

count() { echo $(($1 / part > 0 ? $1 / part : 1)); }

# stage NAME BUILD OPTIONS...: runs tests, with variables of the caller's; $with before the command.
with=
stage() {
    name=$1
    in=$2
    shift 2
    echo "== $name"
    rm -f "$in/meson-logs/testlog.json"
    $with "$tools/run_tests.sh" "$in" --timeout-multiplier 0 "$@" | tail -3
    cp "$in/meson-logs/testlog.json" "$logs/$name.log"
    cp "$in/meson-logs/testlog.txt" "$logs/$name.txt"
    verdicts="$verdicts $logs/$name.log"
}

# Every decoder, the hub and the handshake under mutated input; each allocation failing once.
with="$tools/sanitized.sh $build/asan address,undefined"
SHOAL_FUZZ_COUNT=$(count 1000000) SHOAL_FAILING_SECONDS=$(count 3600) stage fuzz "$build/asan" --suite fuzz
with=
# Random programs, a million each way, and 200,000 in pools of processes.
stage_hunt() {
    log=$logs/hunt_$1
    echo "== hunt $*"
    "$build/test/hunt/hunt" "$@" --seed "$(date +%s)" --failures 20 --keep "$logs" --coverage >"$log.txt" 2>&1
    code=$?
    tail -1 "$log.txt"
    printf '{"name": "hunt %s", "result": "%s"}\n' "$1" "$([ $code = 0 ] && echo OK || echo FAIL)" >"$log.log"
    verdicts="$verdicts $log.log"
}
stage_hunt cpu --count "$(count 1000000)"
stage_hunt fuse --count "$(count 1000000)"
stage_hunt render --count "$(count 20000)"
stage_hunt api --count "$(count 1000000)"
stage_hunt gradient --count "$(count 1000000)" --most 8
SHOAL_HUNT=$(count 50000) stage hunt_pool "$build" hunt_pool hunt_pool_zmq
with="$tools/sanitized.sh $build/asan address,undefined"
stage hunt_asan "$build/asan" --suite hunt --repeat "$(count 15)"
with=
# Every operation under every pair of layouts, with other shapes each time.
stage layouts "$build" --repeat "$(count 200)" layouts lower
# Kills, stops and cuts at random moments, over both transports.
SHOAL_ROUNDS=$(count 1000) stage recovery "$build" recovery recovery_zmq
# Members that mean harm, and interruptions.
SHOAL_MALICE_SECONDS=$(count 120) stage malice "$build" malice
SHOAL_INTERRUPTIONS=$(count 2000) SHOAL_THREAD_SECONDS=$(count 600) stage interrupt "$build" interrupt
# An hour of full load, over both transports.
SHOAL_LOAD_SECONDS=$(count 3600) stage load "$build" full_load full_load_zmq
# Small faults, planted one at a time, each of which the hunt has to find.
SHOAL_PLANTED=$([ "$part" -gt 1 ] && echo 3 || echo 0) stage planted "$build" --suite planted
# Everything else, again and again.
stage again "$build" --no-suite check --no-suite fuzz --no-suite planted --repeat "$(count "${REPEAT:-20}")"
exec "$tools/summary.py" $verdicts
