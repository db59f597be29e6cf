# shellcheck shell=bash
# Sourced by ./dev: the box as a service, on a machine whose PID 1 is systemd, in systemd-nspawn.
#
# The machine's root file system is this host's own Debian release, made once (about a minute, 220 MB).

reboot_dir=${RECADO_REBOOT_DIR:-target/reboot}

reboot_test() {
    if [ "$(id -u)" -ne 0 ]; then
        say "systemd-nspawn needs root: run this as root"
        return 1
    fi
    build_tools
    want espeak-ng espeak-ng
    want systemd-nspawn systemd-container
    want systemd-analyze systemd
    want mmdebstrap mmdebstrap
    install_wanted
    reboot_root
    RECADO_REBOOT_ROOT=$(realpath "$reboot_dir/root.tar") \
        cargo test --locked --test trouble reboot -- --ignored --nocapture "$@"
}

reboot_root() {
    local codename mirror
    [ ! -e "$reboot_dir/root.tar" ] || return 0
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    mirror=${RECADO_DEBIAN_MIRROR:-http://deb.debian.org/debian}
    say "making a root file system of $codename from $mirror"
    mkdir -p "$reboot_dir"
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,espeak-ng \
        "$codename" "$reboot_dir/new-root.tar" "$mirror"
    mv "$reboot_dir/new-root.tar" "$reboot_dir/root.tar"
}
