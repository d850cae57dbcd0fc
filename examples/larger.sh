#!/bin/sh
# A product of two files that are larger than the memory of all workers together.
#
#   examples/larger.sh           # 2 files of 256 MiB, two workers of 100 MB each: some seconds
#   SIDE=32768 MEMORY=1G examples/larger.sh
#
# Variables: SIDE, rows and columns of both matrices of float32 (8192); MEMORY, what each worker may hold (100M); OUT, the
# folder for the files (build/larger), which takes 12 SIDE^2 bytes; SHOAL, the command (build/cmd/shoal); PYTHON (python3),
# which needs NumPy.
set -eu
cd "$(dirname "$0")/.."

SHOAL=${SHOAL:-build/cmd/shoal}
PYTHON=${PYTHON:-python3}
OUT=${OUT:-build/larger}
SIDE=${SIDE:-8192}
MEMORY=${MEMORY:-100M}
SHOAL_HUB=shm:larger-$$
export SHOAL_HUB

if [ ! -x "$SHOAL" ]; then
    echo "larger: $SHOAL is not there: run make build first" >&2
    exit 1
fi
mkdir -p "$OUT"

running=
stop() {
    for process in $running; do kill "$process" 2>/dev/null || true; done
    for process in $running; do wait "$process" 2>/dev/null || true; done
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

echo "== two matrices of $SIDE x $SIDE, written in panels of rows"
"$PYTHON" - "$OUT" "$SIDE" <<'PYTHON'
import sys
import numpy as np
folder, side = sys.argv[1], int(sys.argv[2])
dice = np.random.default_rng(1)
for name in "ab":
    file = np.lib.format.open_memmap(f"{folder}/{name}.npy", "w+", np.float32, (side, side))
    for at in range(0, side, 256):
        file[at:at + 256] = dice.standard_normal((min(256, side - at), side), np.float32)
    print(f"{folder}/{name}.npy: {file.nbytes / 2**20:,.0f} MiB")
PYTHON

echo "== a pool of two workers that may hold $MEMORY each"
"$SHOAL" hub --address "$SHOAL_HUB" >"$OUT/hub.log" 2>&1 &
running="$!"
until "$SHOAL" status >/dev/null 2>&1; do
    kill -0 "$running" 2>/dev/null || { cat "$OUT/hub.log" >&2; exit 1; }
    sleep 0.1
done
for name in left right; do
    "$SHOAL" worker --name "$name" --threads 1 --memory "$MEMORY" >"$OUT/$name.log" 2>&1 &
    running="$! $running"
done
until [ "$("$SHOAL" status | grep -c -e left -e right)" -eq 2 ]; do
    for process in $running; do
        kill -0 "$process" 2>/dev/null || { cat "$OUT"/left.log "$OUT"/right.log >&2; exit 1; }
    done
    sleep 0.1
done

echo "== the product, in blocks that fit"
rm -f "$OUT/c.npy"
"$SHOAL" matmul "$OUT/a.npy" "$OUT/b.npy" -o "$OUT/c.npy"
"$SHOAL" status

echo "== checked with NumPy: C v = A (B v) for a random v (Freivalds, 1977)"
"$PYTHON" - "$OUT" <<'PYTHON'
import sys
import numpy as np
a, b, c = (np.load(f"{sys.argv[1]}/{name}.npy", mmap_mode="r") for name in "abc")
v = np.random.default_rng(2).standard_normal(len(b))
def times(matrix, vector):
    return np.concatenate([matrix[at:at + 256].astype(np.float64) @ vector for at in range(0, len(matrix), 256)])
right, found = times(a, times(b, v)), times(c, v)
error = np.abs(found - right).max() / np.abs(right).max()
print(f"largest difference: {error:.1e} of the largest element")
sys.exit("the product is wrong" if error > 1e-5 else 0)
PYTHON
echo "the files are in $OUT"
