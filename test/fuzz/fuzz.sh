#!/bin/sh
# Runs one libFuzzer target for SHOAL_FUZZ_SECONDS; what it finds stays in build/fuzz/found/NAME, and
# its corpus grows in build/fuzz/corpus/NAME.
#
#   fuzz.sh TARGET SEEDS
set -eu
name=${1##*/fuzz_}
mkdir -p "corpus/$name" "found/$name"
exec "$1" -max_total_time="${SHOAL_FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -error_exitcode=1 -max_len=65536 \
    -print_final_stats=1 -verbosity=0 "-artifact_prefix=found/$name/" "corpus/$name" "$2"
