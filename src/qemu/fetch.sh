#!/bin/bash
# fetch.sh FOLDER WHAT…: unpacks QEMU (`qemu`: qemu-system-x86 10.1 or later), a small guest kernel (`kernel`), UEFI (`firmware`) and lspci (`lspci`,
# of one version, because each words what it finds in its own way) of Debian into FOLDER, without installing anything and without root.
#
# The packages come from the mirror that this machine's apt uses, or from $CAMPANILE_DEBIAN_MIRROR. apt checks the signature of each suite's index with
# Debian's keyring, and every package against the hash in it; what was unpacked is listed with its SHA-256 in FOLDER/WHAT/packages.
set -euo pipefail

QEMU_SUITES="trixie-backports sid"
QEMU_BASE="trixie"
KERNEL_SUITES="bookworm trixie"
LSPCI_SUITE="bookworm"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "$*" >&2; exit 1; }

[ $# -ge 2 ] || fail "usage: fetch.sh FOLDER qemu|kernel|firmware|lspci…"
folder=$(realpath -m "$1")
shift
for tool in apt-get apt-cache dpkg-deb tar sha256sum; do
    command -v "$tool" > /dev/null || fail "the program $tool is missing, with which packages of Debian are unpacked; install QEMU 10.1 or later with the package manager of this system"
done
[ "$(dpkg --print-architecture)" = amd64 ] || fail "only packages for amd64 are unpacked, and this system is $(dpkg --print-architecture)"
[ -r "$KEYRING" ] || fail "$KEYRING is missing, with which packages are checked; install the package debian-archive-keyring"

mirror=${CAMPANILE_DEBIAN_MIRROR:-}
if [ -z "$mirror" ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 'Created-By: Packages' | awk '$2 == "Debian" && $1 !~ /security/ { print $1; exit }')
fi
# A system that never updated its lists knows the names of its mirrors, but not whose they are.
if [ -z "$mirror" ] && grep -q '^ID=debian' /etc/os-release; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '!/security/ { print; exit }')
fi
[ -n "$mirror" ] || mirror=http://deb.debian.org/debian

# An apt of our own: its lists, cache and settings are in FOLDER, and it believes that nothing is installed, so that it brings every library along.
prepare() {
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/empty"
    rm -f "$apt"/cache/archives/*.deb
    : > "$apt/status"
    : > "$apt/sources.list"
    for suite in $1; do
        echo "deb [signed-by=$KEYRING] $mirror $suite main" >> "$apt/sources.list"
    done
    cat > "$apt/apt.conf" <<CONF
Dir::Etc "$apt/empty";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/empty";
Dir::Etc::preferencesparts "$apt/empty";
Dir::Etc::parts "$apt/empty";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
Acquire::Languages "none";
Acquire::Retries "3";
CONF
    export APT_CONFIG=$apt/apt.conf
    # A mirror that cannot be reached is said at once, with its reason, and not when a package is missed.
    apt-get -qq -o APT::Update::Error-Mode=any update > "$apt/log" 2>&1
}

# What apt said last, in one line.
told() { grep -v '^W: Some index\|^E: Some index' "$apt/log" 2> /dev/null | tail -n 2 | tr '\n' ' '; }

# Unpacks what was downloaded into $1, and lists it in $2.
unpack() {
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$1" --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale
    done
    (cd "$apt/cache/archives" && sha256sum -- *.deb) > "$2"
    rm -f "$apt"/cache/archives/*.deb
}

fetch_qemu() {
    local part=$folder/qemu.part root=$folder/qemu.part/root found=
    mkdir -p "$root"
    for suite in $QEMU_SUITES; do
        if prepare "$QEMU_BASE $suite" && apt-get -qq -y --download-only -t "$suite" install qemu-system-x86 > "$apt/log" 2>&1; then
            found=$suite
            break
        fi
    done
    [ -n "$found" ] || fail "qemu-system-x86 could not be downloaded from $mirror (suites $QEMU_SUITES); apt says: $(told)"
    unpack "$root" "$part/packages"
    cat > "$part/qemu-system-x86_64" <<'RUN'
#!/bin/sh
root=$(dirname "$(realpath "$0")")/root
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" --argv0 qemu-system-x86_64 \
    "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
RUN
    chmod +x "$part/qemu-system-x86_64"
    "$part/qemu-system-x86_64" -device vfio-user-pci,help 2> /dev/null | grep -q socket= || fail "the QEMU of $found does not run here, or has no vfio-user-pci"
}

fetch_kernel() {
    local part=$folder/kernel.part root=$folder/kernel.part/root package=
    mkdir -p "$root"
    for suite in $KERNEL_SUITES; do
        prepare "$suite" || continue
        package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-[0-9]/ { print $2; exit }') || package=
        if [ -n "$package" ] && (cd "$apt/cache/archives" && apt-get -qq download "$package" > "$apt/log" 2>&1); then
            break
        fi
        package=
    done
    [ -n "$package" ] || fail "linux-image-cloud-amd64 could not be downloaded from $mirror (suites $KERNEL_SUITES); apt says: $(told)"
    unpack "$root" "$part/packages"
    ls "$root"/boot/vmlinuz-* > /dev/null || fail "$package has no kernel"
}

fetch_firmware() {
    local part=$folder/firmware.part
    mkdir -p "$part/root"
    prepare "$QEMU_BASE" && (cd "$apt/cache/archives" && apt-get -qq download ovmf > "$apt/log" 2>&1) || fail "ovmf could not be downloaded from $mirror (suite $QEMU_BASE); apt says: $(told)"
    unpack "$part/root" "$part/packages"
    [ -f "$part/root/usr/share/OVMF/OVMF_CODE_4M.fd" ] || fail "the package ovmf has no OVMF_CODE_4M.fd"
}

fetch_lspci() {
    local part=$folder/lspci.part root=$folder/lspci.part/root
    mkdir -p "$root"
    { prepare "$LSPCI_SUITE" && apt-get -qq -y --download-only install pciutils > "$apt/log" 2>&1; } || fail "pciutils could not be downloaded from $mirror (suite $LSPCI_SUITE); apt says: $(told)"
    unpack "$root" "$part/packages"
    cat > "$part/lspci" <<'RUN'
#!/bin/sh
root=$(dirname "$(realpath "$0")")/root
exec "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/lspci" "$@"
RUN
    chmod +x "$part/lspci"
    "$part/lspci" --version > /dev/null || fail "the lspci of $LSPCI_SUITE does not run here"
}

for what in "$@"; do
    case $what in
    qemu | kernel | firmware | lspci) ;;
    *) fail "$what is neither qemu, kernel, firmware nor lspci" ;;
    esac
    apt=$folder/$what.part/apt
    rm -rf "${folder:?}/$what.part"
    "fetch_$what"
    rm -rf "$apt" "${folder:?}/$what"
    # Whole or not at all: a folder of this name was unpacked to its end.
    mv "$folder/$what.part" "$folder/$what"
done
