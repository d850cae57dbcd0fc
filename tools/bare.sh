#!/bin/sh
# What somebody sees who has nothing: `make demo` on a bare Debian, made by debootstrap.
#
#   tools/bare.sh [SECONDS]     fails when it takes longer (default: 240)
#
# Prints how long it took and what it installed. Fails when third-party code was compiled, or when more
# was installed than the demo needs. Where other programs take more than a tenth of the processors
# meanwhile, the time that passed says little; the processor time that was used is compared instead.
# Runs as root; only the downloads use the network.
# Variables: MIRROR, of Debian; BASE, a tarball that `debootstrap --make-tarball` wrote.
set -eu
cd "$(dirname "$0")/.."
limit=${1:-240}
most_debian=200 most_python=16

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "bare: needs root and debootstrap: apt-get install debootstrap"
    exit 77
fi
root=$(mktemp -d /var/tmp/shoal-bare-XXXXXX)
end() {
    for at in dev/shm dev proc; do umount -l "$root/$at" 2>/dev/null || true; done
    rm -rf --one-file-system "$root"
}
trap end EXIT
trap 'exit 130' INT TERM

debootstrap ${BASE:+--unpack-tarball="$BASE"} --variant=minbase --include=make bookworm "$root" \
    "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 || { cat "$root.log"; exit 1; }
rm "$root.log"
cp /etc/resolv.conf "$root/etc/"
# Where this machine has certificates of its own, downloads need them there, too.
for kept in /usr/local/share/ca-certificates /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    [ ! -e "$kept" ] || cp -rL --parents "$kept" "$root"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
mkdir "$root/shoal"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp -P --parents -t "$root/shoal"

# The seconds for which all processors together have been busy. What this script's children took is
# told by `times`, which must not run in a subshell.
busy() { awk -v hz="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4 + $7 + $8 + $9) / hz }' /proc/stat; }

before=$(chroot "$root" dpkg-query -W -f '${Package}\n' | wc -l)
start=$(date +%s) busy_before=$(busy)
times >"$root/times"
chroot "$root" sh -c 'unset VIRTUAL_ENV CC CFLAGS; export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
    cd /shoal && make demo' </dev/null >"$root/demo.log" 2>&1 || { cat "$root/demo.log"; exit 1; }
cat "$root/demo.log"
seconds=$(($(date +%s) - start)) busy_after=$(busy)
times >>"$root/times"
# Processor seconds of the demo, and the percentage of the processors that all other programs took.
used=$(awk '{ gsub(/[ms]/, " "); sum[NR] = $1 * 60 + $2 + $3 * 60 + $4 }
    END { print int(sum[4] - sum[2]) }' "$root/times") # lines 2 and 4 are of children
others=$(awk "BEGIN { print int(100 * ($busy_after - $busy_before - $used) / ($seconds + 1) / $(nproc)) }")

code=0
fail() {
    echo "bare: $*"
    code=1
}
debian=$(($(chroot "$root" dpkg-query -W -f '${Package}\n' | wc -l) - before))
python=$(ls -d "$root"/shoal/build/venv/lib/python3*/site-packages/*.dist-info | wc -l)
echo "bare: make demo took $seconds s; $debian Debian and $python Python packages were installed"
if [ "$others" -gt 10 ]; then
    echo "bare: other programs took $others % of the processors; it used $used processor seconds itself"
    [ $((used / $(nproc))) -le "$limit" ] || fail "that is more than $limit s on $(nproc) cores"
else
    [ "$seconds" -le "$limit" ] || fail "that is more than $limit s"
fi
[ "$debian" -le $most_debian ] || fail "more than $most_debian Debian packages"
[ "$python" -le $most_python ] || fail "more than $most_python Python packages"
for unwanted in clang g++ cmake python3-torch; do
    ! chroot "$root" dpkg-query -W "$unwanted" >/dev/null 2>&1 || fail "$unwanted was installed"
done
# What is installed has to be found, by the loader and by pkg-config, without setting anything.
in_root() { chroot "$root" env -u VIRTUAL_ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
in_root make -C /shoal install >"$root/install.log" 2>&1 </dev/null || { cat "$root/install.log"; fail "make install"; }
told=$(in_root shoal --version 2>&1) || fail "the installed command: $told"
[ "$told" = "shoal $(in_root pkg-config --modversion shoal 2>&1)" ] || fail "pkg-config does not say: $told"

# What the demo's programs print, after what was installed: nothing stray.
stray=$(sed -n '/^== A pool/,$p' "$root/demo.log" | grep -iE 'warning|traceback|error' || true)
[ -z "$stray" ] || fail "stray lines: $stray"
# A wheel that was compiled here says so by its tag: not one of manylinux, nor `any`.
compiled=$(grep -lE '^Tag: .*-linux_' "$root"/shoal/build/venv/lib/python3*/site-packages/*.dist-info/WHEEL || true)
[ -z "$compiled" ] || fail "compiled here: $compiled"
exit $code
