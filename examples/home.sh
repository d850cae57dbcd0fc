#!/bin/sh
# A pool over three machines of a house, step by step. The machines are network namespaces of this computer at a switch of
# their own, with the cables of a house: 1 Gb/s, and 100 Mb/s for the laptop's WiFi. So it needs root (sudo), and iproute2.
# Nothing of it is on a real network, and nothing of it stays.
#
#   sudo examples/home.sh
#
# Variables: SIDE, rows and columns of the matrices (4096); SHOAL, the command (build/cmd/shoal); PYTHON (python3), which needs
# NumPy.
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
SIDE=${SIDE:-4096}
SHOAL=$(realpath "${SHOAL:-build/cmd/shoal}") || exit 1
[ -x "$SHOAL" ] || { echo "home: $SHOAL is not there: run make build first" >&2; exit 1; }
tag=home$$
folder=$(mktemp -d /tmp/shoal-XXXXXX)
PATH=$(dirname "$SHOAL"):$PATH
export PATH

hub=
running=
finish() {
    for process in $running; do kill "$process" 2>/dev/null || true; done
    for process in $running; do wait "$process" 2>/dev/null || true; done
    for machine in desk laptop attic switch; do ip netns delete "$tag-$machine" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# plug MACHINE ADDRESS RATE: a machine with a folder of its own, and a cable to the switch.
plug() {
    ip netns add "$tag-$1"
    ip -n "$tag-$1" link set lo up
    ip -n "$tag-switch" link add "$1" type veth peer name eth0 netns "$tag-$1"
    ip -n "$tag-switch" link set "$1" master bridge up
    ip -n "$tag-$1" address add "$2/24" brd + dev eth0
    ip -n "$tag-$1" link set eth0 up
    for end in "$tag-$1 eth0" "$tag-switch $1"; do
        tc -n "${end% *}" qdisc add dev "${end#* }" root tbf rate "$3" burst 128k latency 20ms
    done
    mkdir -p "$folder/$1/run"
}

# at MACHINE COMMAND...: a command as that machine's user runs it; with $exec before it, in the place of this shell.
exec=
at() {
    where=$1
    shift
    $exec ip netns exec "$tag-$where" env SHOAL_HUB="$hub" HOME="$folder/$where" XDG_RUNTIME_DIR="$folder/$where/run" "$@"
}

# say MACHINE COMMAND...: shows the command, and runs it.
say() {
    printf '\n%s$ ' "$1"
    shift
    echo "$*"
}

# begin MACHINE WORD COMMAND...: runs a command in the background, until it has said WORD.
begin() {
    log=$folder/$1.log who=$1 word=$2
    shift 2
    say "$who" "$@"
    exec=exec
    at "$who" "$@" >"$log" 2>&1 &
    exec=
    process=$! tries=0
    running="$process $running"
    until grep -q "$word" "$log" 2>/dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "$process" 2>/dev/null; then
            cat "$log" >&2
            exit 1
        fi
        sleep 0.1
    done
    cat "$log"
}

do_at() {
    say "$@"
    at "$@"
}

if ! ip netns add "$tag-switch" 2>"$folder/error"; then
    echo "home: no network namespaces: $(cat "$folder/error")" >&2
    exit 77
fi
ip -n "$tag-switch" link add bridge type bridge
ip -n "$tag-switch" link set bridge up
plug desk 10.78.0.1 1gbit
plug laptop 10.78.0.2 100mbit
plug attic 10.78.0.3 1gbit

echo "== The desk keeps the pool. What leaves a machine is encrypted, and each machine needs an invitation."
begin desk listening shoal hub --listen 10.78.0.1:7400
for machine in laptop attic; do
    say desk shoal invite
    at desk shoal invite >"$folder/token"
    sed 's/\(.\{24\}\).*/\1…/' "$folder/token"
    printf '\n%s$ shoal join    # the invitation on standard input, so that it is seen nowhere\n' "$machine"
    at "$machine" shoal join <"$folder/token"
done

echo
echo "== Each lends what it has."
begin laptop joined shoal worker --name laptop --threads 1
begin attic joined shoal worker --name attic --threads 1

echo
echo "== Who is there, how fast each is and the way to it, and how a product would best be divided."
hub=tcp://10.78.0.1:7400
say laptop "export SHOAL_HUB=$hub"
do_at laptop shoal status
do_at laptop shoal split "${SIDE}x${SIDE}x${SIDE}" --on laptop,attic

echo
echo "== A product of two files of the laptop."
at laptop "$PYTHON" -c "
import numpy as np
dice = np.random.default_rng(1)
for name in 'ab':
    np.save('$folder/laptop/' + name + '.npy', dice.integers(-8, 8, ($SIDE, $SIDE)).astype(np.float32))"
cd "$folder/laptop"
do_at laptop shoal matmul a.npy b.npy -o c.npy --on laptop,attic

echo
echo "== The same, while somebody pulls the attic's cable."
say laptop shoal matmul a.npy b.npy -o d.npy --on laptop,attic
at laptop shoal matmul a.npy b.npy -o d.npy --on laptop,attic &
product=$!
sleep 1
ip -n "$tag-switch" link set attic down
wait "$product"
sleep 2 # by then silence is noticed, too
do_at laptop shoal status

at laptop "$PYTHON" -c "
import numpy as np
a, b, c, d = (np.load(f'{name}.npy') for name in 'abcd')
right = a @ b
assert (c == right).all() and (d == right).all()
print('\nboth products are what NumPy says')"
