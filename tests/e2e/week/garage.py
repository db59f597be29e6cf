"""A garage whose work takes days, as an MCP server with tasks. What it is asked and what it does is written into the folder that it is given, with
the key that came with it."""

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

folder = Path(sys.argv[1])
keys: dict[str, str] = {}


def note(what: str) -> None:
    with open(folder / "garage", "a") as notes:
        notes.write(what + "\n")


class Keys(Middleware):
    async def on_call_tool(self, context, call_next):
        meta = context.fastmcp_context.request_context.meta or {}
        key = meta.get("io.recado/idempotency-key", "without")
        car = (context.message.arguments or {}).get("car", "none")
        keys[car] = key
        note(f"asked {key}")
        return await call_next(context)


server = FastMCP("garage")
server.add_extension(TasksExtension())
server.add_middleware(Keys())


@server.tool(task=TaskConfig(mode="required"))
async def mend(car: str) -> dict:
    key = keys[car]
    note(f"begun {key}")
    while not (folder / "finish").exists():
        await asyncio.sleep(0.02)
    note(f"done {key}")
    return {"car": car}


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = server.http_app(stateless_http=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
