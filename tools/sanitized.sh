#!/bin/sh
# A build folder with sanitizers, and a command that runs with what they are to be told. It builds what it needs, as
# `meson test` does.
#
#   tools/sanitized.sh FOLDER SANITIZERS COMMAND...
#   tools/sanitized.sh build/asan address,undefined meson test -C build/asan --suite unit
set -u
build=$1
[ -f "$build/build.ninja" ] ||
    meson setup "$build" -Db_sanitize="$2" -Db_lundef=false -Dpython=false -Doptimization=1 -Ddebug=false \
        -Dc_args=-g1 >"$build.log" 2>&1 || { cat "$build.log"; exit 1; } # -g1: the lines, which reports name
shift 2
# Fresh memory is full of 0xff (NaN), what was freed of 0xfe: its first 64 KiB, as filling all of what servers take
# for their buffers is most of the time that fuzzing needs.
fill=max_malloc_fill_size=65536:malloc_fill_byte=255:max_free_fill_size=65536:free_fill_byte=254
# Drivers, which the opencl backend opens, set signal stacks of their own, and keep what they have till the end.
here=$(cd "$(dirname "$0")" && pwd)
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:use_sigaltstack=0:$fill
export LSAN_OPTIONS=print_suppressions=0:suppressions=$here/lsan.supp
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$here/tsan.supp"
exec "$@"
