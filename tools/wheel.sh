#!/bin/sh
# Makes the Python packages as wheels in FOLDER: shoal for any Linux with a C library as new as this
# machine's, with the libraries that it needs inside, shoal-airllm, shoal-cluster-matrix, shoal-gt
# and shoal-pcp.
#
#   tools/wheel.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
folder=$1
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT

mkdir -p "$folder"
rm -f "$folder"/shoal-*.whl "$folder"/shoal_*.whl
python3 -m pip --quiet --disable-pip-version-check wheel --no-deps -w "$raw" .
python3 -m auditwheel repair -w "$folder" "$raw"/shoal-*.whl
# setuptools builds beside its sources, which are not to be touched.
cp -rL python/compat "$raw/compat"
for package in "$raw/compat" "$raw/compat/airllm" "$raw/compat/cluster_matrix" "$raw/compat/pcp"; do
    python3 -m pip --quiet --disable-pip-version-check wheel --no-deps -w "$folder" "$package"
done
for wheel in "$folder"/*.whl; do echo "$wheel"; done
