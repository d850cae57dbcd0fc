#!/bin/sh
# The hunt for wrong numbers, for as long as one likes.
#
#   tools/hunt.sh BUILD [SECONDS [SEED]]     each way for so long; SEED: of the first programs (the time)
#
# What fails is cut down, printed, and kept in BUILD/hunt.
set -u
build=$1
seconds=${2:-60}
seed=${3:-$(date +%s)}
mkdir -p "$build/hunt"
wrong=0
for way in cpu api "gradient --most 8"; do
    # shellcheck disable=SC2086 (a way has options of its own)
    "$build/test/hunt/hunt" $way --seed "$seed" --seconds "$seconds" --failures 5 --keep "$build/hunt" || wrong=1
done
exit $wrong
