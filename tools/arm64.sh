# shellcheck shell=bash
# Sourced by ./dev: builds recado for 64-bit ARM on another machine, and boots it there.
#
# The proof is a whole emulated machine, kernel included: an init of one page runs the binary, says how it ended and
# powers off. (User-mode emulation is no substitute: it hangs when the first thread starts.)

arm64_target=aarch64-unknown-linux-gnu
arm64_dir=${RECADO_ARM64_DIR:-target/arm64}
arm64_bin=$arm64_dir/$arm64_target/release/recado

# The emulated machine is up in seconds; one that says nothing for so long is stuck.
arm64_boot_seconds_max=180

arm64_build() {
    build_tools
    arm64_want_linker
    install_wanted
    arm64_standard_library
    say "cross-building into $arm64_dir"
    CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        cargo build --locked --release --bin recado --target $arm64_target --target-dir "$arm64_dir"
    say "$arm64_bin: $(stat -c %s "$arm64_bin") bytes, needs glibc $(arm64_glibc) or newer"
}

# Boots the binary and runs it with the given arguments. It must exit with 0, and the self-test must say that it passed.
arm64_test() {
    local expected="init: recado exited with 0"
    [ $# -gt 0 ] || set -- self-test
    [ "$1" != self-test ] || expected="self-test passed"
    arm64_build
    want cpio cpio
    install_wanted
    arm64_emulator
    arm64_kernel
    arm64_initramfs
    arm64_boot "$@" | tee "$arm64_dir/console"
    if grep -q -F "init: recado exited with 0" "$arm64_dir/console" && grep -q -F "$expected" "$arm64_dir/console"; then
        say "arm64: recado $* passed"
    else
        say "arm64: recado $* failed: see the console above"
        return 1
    fi
}

# The newest version of a glibc symbol that the binary uses.
arm64_glibc() {
    aarch64-linux-gnu-readelf -W --dyn-syms "$arm64_bin" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d _ -f 2
}

arm64_want_linker() {
    want aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    want /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
}

# The standard library for the target: the compiler's own, else rustup's, else Debian's with Debian's compiler.
arm64_standard_library() {
    arm64_knows_target rustc && return
    if have rustup && rustup target add $arm64_target >&2; then
        return
    fi
    export RUSTC=/usr/bin/rustc
    arm64_knows_target $RUSTC && return
    as_root dpkg --add-architecture arm64
    wanted+=(rustc-web libstd-rust-web-dev:arm64)
    install_wanted
}

arm64_knows_target() {
    [ -d "$("$1" --print sysroot 2>/dev/null)/lib/rustlib/$arm64_target/lib" ]
}

# Debian's emulator. Where a newer qemu-utils is installed from backports, only the emulator from there goes with it.
arm64_emulator() {
    have qemu-system-aarch64 && return
    say "installing qemu-system-arm"
    apt_get update
    if apt_get install --no-remove --no-install-recommends qemu-system-arm 2>/dev/null; then
        return
    fi
    local codename sources
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    sources=$(mktemp)
    chmod 644 "$sources"
    [ ! -e /etc/apt/sources.list ] || cat /etc/apt/sources.list >"$sources"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $codename-backports main" >>"$sources"
    apt_get -o Dir::Etc::SourceList="$sources" update
    apt_get -o Dir::Etc::SourceList="$sources" install --no-remove --no-install-recommends -t "$codename-backports" qemu-system-arm
    rm -f "$sources"
}

# Only the kernel image out of Debian's package for cloud machines; nothing of it is installed.
arm64_kernel() {
    [ -e "$arm64_dir/vmlinuz" ] && return
    local package scratch
    if ! apt-cache show linux-image-cloud-arm64:arm64 >/dev/null 2>&1; then
        as_root dpkg --add-architecture arm64
        apt_get update
    fi
    package=$(apt-cache depends linux-image-cloud-arm64:arm64 | sed -n '0,/Depends:/s/.*Depends: //p')
    say "fetching the kernel of $package"
    scratch=$(mktemp -d)
    (cd "$scratch" && apt-get download -q "$package" >/dev/null 2>&1)
    dpkg --fsys-tarfile "$scratch"/*.deb | tar -x -C "$scratch" --wildcards './boot/vmlinuz-*'
    mv "$scratch"/boot/vmlinuz-* "$arm64_dir/vmlinuz"
    rm -rf "$scratch"
}

arm64_initramfs() {
    local root=$arm64_dir/root
    rm -rf "$root"
    mkdir -p "$root"/{dev,proc,sys,tmp,lib}
    aarch64-linux-gnu-gcc -static -O2 -Wall -Wextra -Werror -o "$root/init" tools/arm64/init.c
    aarch64-linux-gnu-strip -o "$root/recado" "$arm64_bin"
    arm64_copy_libraries "$root/recado" "$root/lib"
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$arm64_dir/initramfs"
}

# The shared libraries that a binary names, and those that they name, from the cross compiler's or Debian's tree.
arm64_copy_libraries() {
    local name tree
    for name in $(aarch64-linux-gnu-readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        [ ! -e "$2/$name" ] || continue
        for tree in /usr/aarch64-linux-gnu/lib /usr/lib/aarch64-linux-gnu /lib/aarch64-linux-gnu; do
            [ -e "$tree/$name" ] || continue
            cp -L "$tree/$name" "$2/$name"
            break
        done
        arm64_copy_libraries "$2/$name" "$2"
    done
}

# The console on standard output. A Raspberry Pi 4's processor, and memory for a small one.
arm64_boot() {
    timeout --kill-after=5 $arm64_boot_seconds_max qemu-system-aarch64 \
        -M virt -cpu cortex-a72 -smp 2 -m 512 -nodefaults -display none -monitor none -serial stdio -nic none -no-reboot \
        -kernel "$arm64_dir/vmlinuz" -initrd "$arm64_dir/initramfs" \
        -append "console=ttyAMA0 quiet panic=-1 -- $*" </dev/null | tr -d '\r'
}
