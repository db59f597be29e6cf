# shellcheck shell=bash
# Sourced by ./dev: servers of the Model Context Protocol that others have written, for tests/mcp.

# FastMCP with its tasks, 100 MB, and the protocol's own example, 60 MB, which runs on the Node 18 of Debian 12 and on newer ones.
install_mcp() {
    local place version=4.1.4 everything=2026.8.31
    place=${CARGO_TARGET_DIR:-target}/fastmcp
    install_from_pypi "$place" fastmcp "$version" "fastmcp==$version" "fastmcp-tasks==$version" "fastmcp-slim==$version"
    RECADO_FASTMCP_PYTHON=$(realpath -s "$place/bin/python3")
    place=${CARGO_TARGET_DIR:-target}/mcp-everything
    if [ "$(cat "$place/version" 2>/dev/null)" != "$everything" ]; then
        say "fetching @modelcontextprotocol/server-everything $everything from npm into $place"
        rm -rf "$place"
        npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$place" "@modelcontextprotocol/server-everything@$everything"
        echo "$everything" >"$place/version"
    fi
    RECADO_MCP_EVERYTHING=$(realpath -s "$place/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
    export RECADO_FASTMCP_PYTHON RECADO_MCP_EVERYTHING
}
