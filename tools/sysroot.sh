#!/bin/sh
# Unpacks Debian packages of another processor, and what they need, into a folder: for a compiler, and
# for running programs of that processor. They are not installed; apt and dpkg of this machine are
# neither changed nor asked, but for where Debian's mirrors are.
#
#   tools/sysroot.sh FOLDER ARCHITECTURE PACKAGE...    such as: build/aarch64-root arm64 libc6-dev
#
# A second run costs nothing.
set -eu
root=$1 architecture=$2
shift 2
stamp=$root/packages
[ "$(cat "$stamp" 2>/dev/null)" != "$architecture $*" ] || exit 0

rm -rf "$root"
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root"
: >"$apt/status"
# Everything that apt notes goes to a folder of its own, so it needs no rights either.
ask() {
    apt-get -q -y -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o APT::Sandbox::User="$(id -un)" -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" \
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" "$@" >>"$apt/log" 2>&1
}
if ! { ask update && ask install --download-only --no-install-recommends "$@"; }; then
    tail -n 5 "$apt/log" >&2
    echo "sysroot: cannot download Debian packages for $architecture; see above" >&2
    exit 1
fi

# As on a system that is installed, /lib is /usr/lib.
for folder in bin lib sbin; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
done
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink \
        --exclude='./etc' --exclude='./var' --exclude='./usr/share/doc' --exclude='./usr/share/man' \
        --exclude='./usr/share/locale'
done
# Links to places of the system lead into the folder.
find "$root" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath "$root")$(readlink "$link")" "$link"
done
echo "$architecture $*" >"$stamp"
