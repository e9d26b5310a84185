#!/bin/bash
# fetch.sh FOLDER WHAT…: unpacks QEMU (`qemu`: qemu-system-x86 10.1 or later), a small guest kernel (`kernel`), UEFI (`firmware`) and lspci (`lspci`,
# of one version, because each words what it finds in its own way) of Debian into FOLDER, without installing anything and without root. `wine` is Wine 10, under
# which the tests load the kernel driver.
#
# The packages come from the mirror that this machine's apt uses, or from $CAMPANILE_DEBIAN_MIRROR. apt checks the signature of each suite's index with
# Debian's keyring, and every package against the hash in it; what was unpacked is listed with its SHA-256 in FOLDER/WHAT/packages.
set -euo pipefail

QEMU_SUITES="trixie-backports sid"
QEMU_BASE="trixie"
KERNEL_SUITES="bookworm trixie"
LSPCI_SUITE="bookworm"
WINE_SUITE="trixie"
# libwine depends on 190 packages, for sound, video and screens; these are the ones that programs without any of it need.
WINE_PACKAGES="libwine wine64 libc6 libgcc-s1 libunwind8 liblzma5 libz-mingw-w64"
# And these are the modules, of 751, that start a program of the console and kernel services. Wine makes a copy of all that are there for each of its Windows.
WINE_MODULES="advapi32.dll apisetschema.dll bcrypt.dll bcryptprimitives.dll combase.dll coml2.dll conhost.exe crypt32.dll gdi32.dll hal.dll imm32.dll
kernel32.dll kernelbase.dll msvcrt.dll newdev.dll ntdll.dll ntoskrnl.exe ole32.dll plugplay.exe rpcrt4.dll rundll32.exe sechost.dll services.exe setupapi.dll
shcore.dll shell32.dll shlwapi.dll ucrtbase.dll user32.dll userenv.dll version.dll win32u.dll wineboot.exe winedevice.exe wintrust.dll ws2_32.dll"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "$*" >&2; exit 1; }

[ $# -ge 2 ] || fail "usage: fetch.sh FOLDER qemu|kernel|firmware|lspci|wine…"
folder=$(realpath -m "$1")
shift
for tool in apt-get apt-cache dpkg-deb tar sha256sum; do
    command -v "$tool" > /dev/null || fail "the program $tool is missing, with which packages of Debian are unpacked; where there is no apt, install what is asked for ($*) with the package manager of this system"
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

fetch_wine() {
    local part=$folder/wine.part root=$folder/wine.part/root modules=usr/lib/x86_64-linux-gnu/wine/x86_64-windows zlib=usr/x86_64-w64-mingw32/lib/zlib1.dll
    # shellcheck disable=SC2086 # Several packages.
    { prepare "$WINE_SUITE" && (cd "$apt/cache/archives" && apt-get -qq download $WINE_PACKAGES > "$apt/log" 2>&1); } || fail "Wine could not be downloaded from $mirror (suite $WINE_SUITE); apt says: $(told)"
    mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/tmp"
    unpack "$root" "$part/packages"
    ln -s usr/lib "$root/lib"
    ln -s usr/lib64 "$root/lib64"
    mkdir "$part/kept"
    for module in $WINE_MODULES; do
        mv "$root/$modules/$module" "$part/kept" || fail "the package libwine of $WINE_SUITE has no $module"
    done
    # As the package's own script does when it is installed: the DLL of another package gets the mark of Wine's own.
    { head -c 64 "$root/$zlib"; printf 'Wine builtin DLL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'; tail -c +97 "$root/$zlib"; } > "$part/kept/zlib1.dll"
    rm -rf "${root:?}/$modules" "${root:?}/usr/i686-w64-mingw32" "${root:?}/usr/x86_64-w64-mingw32ucrt"
    mv "$part/kept" "$root/$modules"
    cat > "$part/wine" <<'RUN'
#!/bin/sh
# wine PROGRAM ARGUMENT…: runs a program for Windows under the Wine in root, where / is that folder. It is the first process of namespaces of its own: what it
# leaves running ends with it, and the registry is as before. `wine --boot` makes the folders of Windows. Debian's Wine looks for its parts in /usr alone.
root=$(dirname "$(realpath "$0")")/root
for user in "" "--user --map-root-user"; do
    # shellcheck disable=SC2086 # Several options, or none.
    if refused=$(unshare $user --mount --pid --fork sh -c "mount -t proc proc '$root/proc' && mount --rbind /dev '$root/dev'" 2>&1); then
        # shellcheck disable=SC2086,SC2016 # As above; the inner shell expands the rest.
        exec unshare $user --mount --pid --fork --kill-child sh -c '
            root=$1
            shift
            mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" || exit 125
            inside() {
                env -i PATH=/usr/bin HOME=/tmp WINEPREFIX=/windows WINELOADER=/usr/lib/wine/wine64 WINESERVER=/usr/lib/wine/wineserver64 WINEDLLOVERRIDES=mscoree,mshtml= WINEDEBUG="${WINEDEBUG:--all}" \
                    "$chroot" "$root" "$@"
            }
            chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot) || exit 125
            if [ "$1" = --boot ]; then
                inside /usr/lib/wine/wine64 "C:\\windows\\system32\\wineboot.exe" --init && inside /usr/lib/wine/wineserver64 -k
            else
                inside /usr/lib/wine/wine64 "$@"
            fi' wine "$root" "$@"
    fi
done
echo "wine: this system lets no namespaces be made ($refused); a container needs the capability SYS_ADMIN for that, and no filter of system calls against it" >&2
exit 125
RUN
    chmod +x "$part/wine"
    "$part/wine" --boot > "$part/boot.log" 2>&1 || fail "the Wine of $WINE_SUITE does not start here: $(tail -n 2 "$part/boot.log" | tr '\n' ' ')"
    [ -f "$root/windows/system.reg" ] || fail "the Wine of $WINE_SUITE left no registry; $part/boot.log has what it said"
}

for what in "$@"; do
    case $what in
    qemu | kernel | firmware | lspci | wine) ;;
    *) fail "$what is neither qemu, kernel, firmware, lspci nor wine" ;;
    esac
    apt=$folder/$what.part/apt
    rm -rf "${folder:?}/$what.part"
    "fetch_$what"
    rm -rf "$apt" "${folder:?}/$what"
    # Whole or not at all: a folder of this name was unpacked to its end.
    mv "$folder/$what.part" "$folder/$what"
done
