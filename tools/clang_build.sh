#!/bin/sh
# Builds everything with clang, warnings being errors (gcc's are in the main build). Nothing runs, so
# nothing is optimized.
#
#   tools/clang_build.sh SOURCE BUILD
set -eu
PATH="$1/build/venv/bin:$PATH"
# Inside `meson test` the variables of the outer build must not leak into this one.
unset MAKEFLAGS MESON_BUILD_ROOT MESON_SOURCE_ROOT 2>/dev/null || true
[ -f "$2/build.ninja" ] || CC=clang meson setup "$2" "$1" --werror -Doptimization=0 -Ddebug=false
ninja -C "$2" --quiet
