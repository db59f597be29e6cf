"""What the counterpart's recognition, language model and voice are: they hear always the same, answer by rules, and hum.

usage: backend.py PORT
"""

import asyncio
import json
import math
import struct
import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

HEARD = "Buenos días. ¿Puede mirar el pedido cuatro siete dos nueve?"
CALL = {"id": "call_1", "type": "function", "index": 0, "function": {"name": "look_up_order", "arguments": '{"number":"4729"}'}}
RATE_HZ = 24_000

app = FastAPI()


@app.post("/v1/audio/transcriptions")
async def transcribe(request: Request):
    await request.body()
    return {"text": HEARD}


@app.post("/v1/audio/speech")
async def speak(request: Request):
    text = (await request.json()).get("input", "")
    samples = int(RATE_HZ * max(0.4, len(text) / 15))
    hum = b"".join(struct.pack("<h", int(8_000 * math.sin(2 * math.pi * 440 * n / RATE_HZ))) for n in range(samples))
    return StreamingResponse((hum[at : at + 4_800] for at in range(0, len(hum), 4_800)), media_type="audio/pcm")


@app.post("/v1/chat/completions")
async def answer(request: Request):
    asked = await request.json()
    last = words([message for message in asked["messages"] if message["role"] != "tool"][-1])
    call = None
    if "key 1" in last:
        said = "Su pedido está en camino."
    elif "key 2" in last:
        said = "uno, dos, tres, cuatro, cinco. " * 60
    elif last == HEARD and asked.get("tools"):
        said, call = "Un momento.", CALL
    else:
        said = last
    return StreamingResponse(stream(said, call), media_type="text/event-stream")


def words(message):
    content = message.get("content")
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or [])


async def stream(said, call):
    for word in said.split():
        yield chunk({"content": word + " "})
        await asyncio.sleep(0.01)
    if call:
        yield chunk({"tool_calls": [call]})
    yield chunk({}, "tool_calls" if call else "stop")
    yield "data: [DONE]\n\n"


def chunk(delta, finish_reason=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(whole)}\n\n"


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
