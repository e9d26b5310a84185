#!/bin/sh
# Builds toy.sys without a WDK: `build.sh OUT` with clang and lld, `build.sh OUT mingw` with MinGW-w64. OUT is a folder.
# A third word is the version of the interface to build for, from WDDM2_0 to WDDM3_2, which is the default.
# A fourth word, `queues`, builds it with the hardware queues of toy_queues.c, for a version from WDDM2_7 on.
# A copy of this folder elsewhere finds the headers by CAMPANILE_INCLUDE, the path of kmt/include in the checkout.
# With the WDK, compile toy.c alone against its headers and link displib.lib and ntoskrnl.lib.
set -eu
here=$(cd "$(dirname "$0")" && pwd) out=$1
headers="${CAMPANILE_INCLUDE-$here/../../kmt/include}/km"
if [ ! -f "$headers/ntddk.h" ]; then
    echo "no $headers/ntddk.h: set CAMPANILE_INCLUDE to the path of kmt/include in a checkout of Campanile" >&2
    exit 2
fi
flags="-std=gnu11 -O2 -g -Wall -Wextra -Wno-multichar -ffreestanding -fno-builtin -fno-stack-protector -mno-red-zone -mgeneral-regs-only"
# clang leaves the unwind data of C out when it builds freestanding code; without them __try handles nothing that a function it calls raises.
flags="$flags -funwind-tables"
flags="$flags -I $headers -DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_${3-WDDM3_2}"
[ "${4-}" != queues ] || flags="$flags -DTOY_HARDWARE_QUEUES"
services="$headers/ntoskrnl.def"
mkdir -p "$out"
# shellcheck disable=SC2086
if [ "${2-clang}" = clang ]; then
    for file in toy displib; do clang --target=x86_64-pc-windows-msvc $flags -gcodeview -c "$here/$file.c" -o "$out/$file.obj"; done
    llvm-dlltool -m i386:x86-64 -d "$services" -l "$out/kernel.lib"
    lld-link /nologo /driver /subsystem:native /nodefaultlib /entry:DriverEntry /debug "/out:$out/toy.sys" "$out/toy.obj" "$out/displib.obj" "$out/kernel.lib"
else
    for file in toy displib; do x86_64-w64-mingw32-gcc $flags -c "$here/$file.c" -o "$out/$file.o"; done
    x86_64-w64-mingw32-dlltool -d "$services" -l "$out/libkernel.a"
    x86_64-w64-mingw32-gcc -shared -nostdlib -Wl,--subsystem,native -Wl,--entry,DriverEntry -Wl,--dynamicbase -Wl,--exclude-all-symbols \
        -o "$out/toy.sys" "$out/toy.o" "$out/displib.o" "$out/libkernel.a"
fi
