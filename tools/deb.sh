#!/bin/sh
# Builds Debian packages in FOLDER, from a copy: dpkg-buildpackage writes beside its sources.
#
#   tools/deb.sh FOLDER
#
# What they need to be built is what tools/install.sh installs; Debian 12's Meson is too old.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

mkdir "$copy/shoal"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp -P --parents -t "$copy/shoal"
if ! (cd "$copy/shoal" && dpkg-buildpackage --no-sign --build=binary --no-check-builddeps) \
    >"$folder/build.log" 2>&1; then
    tail -40 "$folder/build.log" >&2
    exit 1
fi
rm -f "$folder"/*.deb
cp "$copy"/*.deb "$folder"
for package in "$folder"/*.deb; do echo "$package"; done
