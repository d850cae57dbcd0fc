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

# stage_command NAME COMMAND...: a program by itself, which may say that it cannot run (77).
stage_command() {
    name=$1
    shift
    echo "== $name: $*"
    "$@" >"$logs/$name.txt" 2>&1
    code=$?
    tail -1 "$logs/$name.txt"
    case $code in 0) result=OK ;; 77) result=SKIP ;; *) result=FAIL ;; esac
    printf '{"name": "%s", "result": "%s"}\n' "$name" "$result" >"$logs/$name.log"
    verdicts="$verdicts $logs/$name.log"
}

# Every decoder, the hub and the handshake under mutated input; each allocation failing once.
with="$tools/sanitized.sh $build/asan address,undefined"
SHOAL_FUZZ_COUNT=$(count 1000000) SHOAL_FAILING_SECONDS=$(count 3600) stage fuzz "$build/asan" --suite fuzz
with=
# Random programs, a million each way, 200,000 in pools of processes, 100,000 under sanitizers.
stage_hunt() {
    name=$1
    in=$2
    shift 2
    stage_command "$name" $with "$in/test/hunt/hunt" "$@" --seed "$(date +%s)" --failures 20 --keep "$logs" --coverage
}
for way in $("$build/test/hunt/hunt" ways | grep -vx -e pool -e render); do
    stage_hunt "hunt_$way" "$build" "$way" --count "$(count 1000000)"
done
stage_hunt hunt_render "$build" render --count "$(count 20000)"
# All cases of the conformance suite over OpenCL, a hundredth at a time; every other time as on a GPU.
first=0
while [ $first -lt "$(count 100)" ]; do
    stage_command "opencl_$first" env SHOAL_OPENCL_AS="$([ $((first % 2)) = 0 ] || echo gpu)" \
        POCL_CACHE_DIR="$logs" XDG_CACHE_HOME="$logs" "$build/test/conformance/conformance" opencl --partial 100 $first
    first=$((first + 1))
done
# The same over CUDA, on the stand-in.
standin=$build/test/backend/cuda_standin.so
first=0
while [ $first -lt "$(count 20)" ]; do
    stage_command "cuda_$first" env SHOAL_CUDA_LIBRARY="$standin" SHOAL_CUDA_NVRTC="$standin" SHOAL_CUDA_CUBLAS="$standin" \
        XDG_CACHE_HOME="$logs" "$build/test/conformance/conformance" cuda --partial 20 $first
    first=$((first + 1))
done
SHOAL_HUNT=$(count 50000) stage hunt_pool "$build" hunt_pool hunt_pool_zmq
# By IREE, a fifth; and random programs over OpenCL, as on a GPU.
first=0
while [ $first -lt "$(count 20)" ]; do
    stage_command "iree_$first" env SHOAL_PYTHON="$build/venv/bin/python3" PYTHONPATH="$build/python" XDG_CACHE_HOME="$logs" \
        "$build/test/conformance/conformance" iree --flushes 100 $first
    first=$((first + 1))
done
with="env SHOAL_BACKEND=opencl SHOAL_OPENCL_AS=gpu POCL_CACHE_DIR=$logs XDG_CACHE_HOME=$logs"
stage_hunt hunt_opencl "$build" api --count "$(count 400)"
with=
# The reference against NumPy, every case.
stage_command golden "$build/venv/bin/python3" "$tools/../test/conformance/golden.py" "$build/test/conformance/conformance"
# All their kernels as CUDA has them.
stage_command nvrtc env SHOAL_CUDA_LIBRARY="$standin" "$build/test/conformance/nvrtc" "$build/venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1?"
with="$tools/sanitized.sh $build/asan address,undefined"
ninja -C "$build/asan" --quiet test/hunt/hunt # configured by the fuzzing above
for way in cpu api gradient; do
    stage_hunt "hunt_asan_$way" "$build/asan" "$way" --count "$(count 40000)"
done
with=
# Every operation under every pair of layouts, with other shapes each time.
stage layouts "$build" --repeat "$(count 200)" layouts lower
# Kills, stops and cuts at random moments, over both transports.
SHOAL_ROUNDS=$(count 1000) stage recovery "$build" recovery recovery_zmq
# Members that mean harm, and interruptions.
SHOAL_MALICE_SECONDS=$(count 120) SHOAL_FLOOD_SECONDS=10 SHOAL_SLOWDOWN=2 stage malice "$build" malice
SHOAL_INTERRUPTIONS=$(count 2000) SHOAL_THREAD_SECONDS=$(count 600) stage interrupt "$build" interrupt
# Random programs whose checks fail, over slots and shares, and steps over which memory is flat.
SHOAL_FAILING_SECONDS=$(count 300) SHOAL_PROGRAMS=$(count 9000) SHOAL_STEPS=$(count 100000) \
    stage programs "$build" failing_programs failing_programs_lag matrix training
# Files of checkpoints that were changed.
MUTATED=$(count 100000) stage checkpoints "$build" checkpoint pt_file
# Clients at a time, none of which waits for long.
SHOAL_UNFAIR=2 MESON_TESTTHREADS=1 stage fair "$build" load training
# What has to come within a second or three, where nothing else runs.
SHOAL_SLACK=1 MESON_TESTTHREADS=1 stage in_time "$build" wire_wrong wire_zmq_guest relay pool pool_zmq recovery recovery_zmq seeing seeing_zmq \
    devices trust paths lan netns matrix malice train_failing train_command
# Ten thousand workers that come and go under one session.
SHOAL_CHURN=$(count 10000) stage churn "$build" churn
# Three minutes of a program whose workers are slow; devices that fail at every call.
SHOAL_SLOW_SECONDS=$(count 180) SHOAL_FAILURES=0 stage devices "$build" devices lag_failures opencl_failures cuda_failures
# An hour of full load, over both transports.
SHOAL_LOAD_SECONDS=$(count 3600) stage load "$build" full_load full_load_zmq
# Small faults, planted one at a time, each of which the hunt has to find.
SHOAL_PLANTED=$([ "$part" -gt 1 ] && echo 3 || echo 0) stage planted "$build" --suite planted
# Everything else, again and again.
stage again "$build" --no-suite check --no-suite fuzz --no-suite planted --repeat "$(count "${REPEAT:-20}")"
exec "$tools/summary.py" $verdicts
