"""An MCP server with tools for the tests, as its framework's users write them. What its tools do is written into the folder that it is given."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

folder = Path(sys.argv[2])
server = FastMCP("counterpart")
server.add_extension(TasksExtension())


def note(what: str) -> None:
    with open(folder / "effects", "a") as effects:
        effects.write(what + "\n")


@server.tool
def quick(order: str, context: Context) -> dict:
    meta = context.request_context.meta
    note(f"quick {order}")
    note(f"meta {meta}")
    return {"order": order, "at": "nine"}


@server.tool
def refusing(order: str) -> str:
    note(f"refusing {order}")
    raise ToolError("no table left")


@server.tool(annotations={"readOnlyHint": True})
def reading(day: str) -> str:
    """When the shop is open."""
    note(f"reading {day}")
    return f"On {day} from nine to two"


@server.tool(annotations={"idempotentHint": True})
def repeatable(order: str) -> str:
    note(f"repeatable {order}")
    return "done"


@server.tool
def dying(order: str) -> str:
    note(f"dying {order}")
    os._exit(1)


@server.tool(task=TaskConfig(mode="required"))
async def slow(order: str) -> dict:
    note(f"begun {order}")
    try:
        while not (folder / "finish").exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        note(f"stopped {order}")
        raise
    note(f"done {order}")
    return {"order": order, "at": "ten"}


def later(order: str) -> str:
    return "done"


if "changed" in sys.argv:
    server.local_provider.remove_tool("reading")
    server.tool(later)

if sys.argv[1] == "stdio":
    server.run(transport="stdio", show_banner=False)
else:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[3])))
    # From here on it is there, though not ready yet.
    listener.listen(64)
    print(listener.getsockname()[1], flush=True)
    app = server.http_app(stateless_http=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
