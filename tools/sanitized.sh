#!/bin/sh
# Builds with sanitizers, in a folder of its own.
#
#   tools/sanitized.sh FOLDER SANITIZERS       tools/sanitized.sh build/asan address,undefined
set -u
[ -f "$1/build.ninja" ] ||
    meson setup "$1" -Db_sanitize="$2" -Db_lundef=false -Dpython=false -Doptimization=1 >"$1.log" 2>&1 ||
    { cat "$1.log"; exit 1; }
exec ninja -C "$1" --quiet
