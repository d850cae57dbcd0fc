#!/bin/sh
# Runs `meson test` in a build folder and sums up: the last line is `N passed, N failed`.
#
#   tools/run_tests.sh BUILD [options of meson test]
set -u
build=$1
shift
log=$build/meson-logs/testlog.json last=
for word; do # Meson adds the name of a setup
    [ "$last" != --setup ] || log=$build/meson-logs/testlog-$word.json
    last=$word
done
rm -f "$log"
if [ -z "$(meson test -C "$build" --list "$@" 2>/dev/null | grep -v '^ninja:')" ]; then
    echo "there are no such tests: $*"
    echo "0 passed, 0 failed"
    exit 1
fi
# Many tests wait most of the time: two more at a time than there are cores.
MESON_TESTTHREADS=${MESON_TESTTHREADS:-$(($(nproc) + 2))}
export MESON_TESTTHREADS
# Libraries that tests compare with wait actively for threads of theirs: beside other tests that takes twice the time.
export OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive
# Its own verdict is not used: the log tells more, and no log at all is a failure.
meson test -C "$build" --print-errorlogs "$@" || true
exec "$(dirname "$0")/summary.py" "$log"
