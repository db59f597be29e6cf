# shellcheck shell=bash
# Sourced by ./dev: finds out what is missing and installs it, in one apt-get run.
#
#   want COMMAND-OR-FILE PACKAGE    note the Debian package unless the command or file is there
#   want_rust                       a cargo that is new enough for this workspace
#   want_rust_component NAME COMMAND PACKAGE
#   want_python                     a Python that can make environments
#   install_wanted                  install what was noted; nothing noted, nothing done
#   install_validator               the vendors' own types of the Realtime and Gemini Live protocols, in environments of their own

wanted=()
PATH="${HOME:-/root}/.cargo/bin:$PATH"

say() { printf 'dev: %s\n' "$*" >&2; }

have() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

want() {
    have "$1" || wanted+=("$2")
}

# Debian 12 and 13 keep a recent compiler (made for their browser) beside the frozen one: cargo-web, rustc-web.
want_rust() {
    rust_is_recent && return
    if have rustup; then
        say "rustup: fetching the stable toolchain"
        rustup toolchain install stable --no-self-update --profile default >&2
        export RUSTUP_TOOLCHAIN=stable
    else
        wanted+=(cargo-web rustc-web)
    fi
}

want_rust_component() {
    have "$2" && "$2" --version >/dev/null 2>&1 && return
    if have rustup; then
        rustup component add "$1" >&2
    else
        wanted+=("$3")
    fi
}

want_python() {
    want python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || wanted+=(python3-venv)
}

# Kept beside what is built, and made again where another version is asked for.
install_validator() {
    install_types validator openai 3.57.0
    RECADO_VALIDATOR_PYTHON=$types_python
    install_types validator-gemini google-genai 3.6.1
    RECADO_GEMINI_VALIDATOR_PYTHON=$types_python
    export RECADO_VALIDATOR_PYTHON RECADO_GEMINI_VALIDATOR_PYTHON
}

# A vendor's package in an environment of its own, where there is none yet; which Python has it.
install_types() {
    local place=${CARGO_TARGET_DIR:-target}/$1 package=$2 version=$3
    if [ "$(cat "$place/version" 2>/dev/null)" != "$version" ]; then
        say "fetching $package $version from PyPI into $place"
        python3 -m venv --clear "$place"
        "$place/bin/python3" -m pip install --quiet --disable-pip-version-check "$package==$version"
        echo "$version" >"$place/version"
    fi
    types_python=$(realpath -s "$place/bin/python3")
}

rust_is_recent() {
    local least found
    least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
    [ -n "$found" ] && printf '%s\n' "$least" "$found" | sort -C -V
}

install_wanted() {
    [ ${#wanted[@]} -gt 0 ] || return 0
    if ! have apt-get; then
        say "missing here, by their Debian names: ${wanted[*]}"
        return 0
    fi
    say "installing ${wanted[*]}"
    apt_get update || say "the package lists could not be refreshed; trying with the old ones"
    apt_get install --no-install-recommends "${wanted[@]}"
    wanted=()
    hash -r
}

# apt-get, quiet unless it fails.
apt_get() {
    local log status=0
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 </dev/null || status=$?
    [ $status -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return $status
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        say "needs root, and there is no sudo: run as root: $*"
        return 1
    fi
}
