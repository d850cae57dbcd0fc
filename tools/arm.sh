#!/bin/sh
# Shoal for aarch64: compiled here, and run in qemu's emulation of a processor.
#
#   tools/arm.sh BUILD [--some]    BUILD: the build folder of this machine's own processor
#
# Unit tests and the conformance of every instruction set, on a processor that has all of them and on one
# without the newer ones; then pools with workers of both processors. --some: what CI has time for.
# Exits with 77 where the tools cannot be had, and the last line says why.
set -u
cd "$(dirname "$0")/.."
native=$(realpath "$1") some=${2:-} arm=build/aarch64
PATH=$PWD/build/venv/bin:$PATH
root=$PWD/build/aarch64-root

if ! said=$(tools/install.sh arm 2>&1); then
    echo "$said"
    echo "SKIP: no compiler, emulator or libraries for aarch64: tools/install.sh arm gets them from Debian"
    exit 77
fi
[ -z "$said" ] || echo "$said"

if [ ! -f $arm/build.ninja ]; then
    meson setup $arm --cross-file tools/aarch64.ini --werror -Dpython=false >$arm.log 2>&1 ||
        { cat $arm.log; exit 1; }
fi

# check NAME PROCESSOR OPTIONS...: tests in an emulated processor, with a log of their own.
logs=
check() {
    log=testlog-$1
    QEMU_CPU=$2
    export QEMU_CPU
    shift 2
    rm -f "$arm/meson-logs/$log.json"
    meson test -C $arm --logbase "$log" --print-errorlogs --timeout-multiplier 20 "$@"
    logs="$logs $arm/meson-logs/$log.json"
}

# The older processor has NEON alone.
if [ "$some" = --some ]; then
    tenth="--suite unit --suite conformance --test-args 10" # which unit tests do not look at
    check max max $tenth kernels blocks pool fence events cpu_neon_dot cpu_neon_i8mm
    check a72 cortex-a72 $tenth gemm cpu
else
    check max max --suite unit
    check max-conformance max --suite conformance cpu_base cpu_neon cpu_neon_dot cpu_neon_i8mm
    check a72 cortex-a72 --suite unit kernels gemm grouped blocks convolve row attention region
    check a72-conformance cortex-a72 --suite conformance cpu
fi

# A pool of both processors.
ninja -C "$native" --quiet use || exit 1
export SHOAL="$native/cmd/shoal" SHOAL_ARM="qemu-aarch64 -L $root $PWD/$arm/cmd/shoal" PYTHONPATH="$native/python"
check mixed max --suite mixed
exec tools/summary.py $logs
