"""What the counterpart's recognition, language model and voice are: they hear what they are told to hear, answer by rules, and speak in tones.

usage: backend.py PORT FOLDER

POST /next {"heard": "...", "said": "...", "call": {"name": "...", "arguments": "..."}} says what is recognised from now on, and what the model
makes of it. What recognition was given, and what the voice has made, is kept in FOLDER, as 16-bit samples at 8 kHz: heard-N.raw, spoken-N.raw.
"""

import asyncio
import hashlib
import io
import json
import math
import random
import struct
import sys
import wave
from itertools import count
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

HEARD = "Buenos días. ¿Puede mirar el pedido cuatro siete dos nueve?"
CALL = {"id": "call_1", "type": "function", "index": 0, "function": {"name": "look_up_order", "arguments": '{"number":"4729"}'}}
RATE_HZ = 24_000
KEPT_HZ = 8_000
FOLDER = Path(sys.argv[2])

app = FastAPI()
numbers = count(1)
recognised = HEARD
answers = {HEARD: ("Un momento.", CALL)}


@app.post("/next")
async def follows(request: Request):
    global recognised
    told = await request.json()
    recognised, call = told["heard"], told.get("call")
    answers[recognised] = (told["said"], call and {**CALL, "function": call})
    return {}


def keep(kind, samples, rate_hz):
    every = rate_hz // KEPT_HZ
    kept = struct.unpack(f"<{len(samples) // 2}h", samples)[::every]
    # Nobody reads half a file.
    file = FOLDER / f"{kind}-{next(numbers)}.raw"
    file.with_suffix(".part").write_bytes(struct.pack(f"<{len(kept)}h", *kept))
    file.with_suffix(".part").rename(file)


@app.post("/v1/audio/transcriptions")
async def transcribe(request: Request):
    body = await request.body()
    with wave.open(io.BytesIO(body[body.index(b"RIFF") :])) as recording:
        keep("heard", recording.readframes(recording.getnframes()), recording.getframerate())
    return {"text": recognised}


@app.post("/v1/audio/speech")
async def speak(request: Request):
    text = (await request.json()).get("input", "")
    speech = tones(text, RATE_HZ * max(0.4, len(text) / 15))
    keep("spoken", speech, RATE_HZ)
    return StreamingResponse((speech[at : at + 4_800] for at in range(0, len(speech), 4_800)), media_type="audio/pcm")


def tones(text, samples):
    """A tone that changes twenty times a second, for each text in a way of its own."""
    choice, phase, speech = random.Random(hashlib.sha256(text.encode()).digest()), 0.0, bytearray()
    for n in range(int(samples)):
        if n % (RATE_HZ // 20) == 0:
            step = 2 * math.pi * choice.uniform(300, 1_200) / RATE_HZ
        phase += step
        speech += struct.pack("<h", int(8_000 * math.sin(phase)))
    return bytes(speech)


@app.post("/v1/chat/completions")
async def answer(request: Request):
    asked = await request.json()
    message = [message for message in asked["messages"] if message["role"] != "tool"][-1]
    last, call = words(message), None
    if message["role"] == "system":
        said = "Buenos días, le escucho, dígame en qué puedo ayudarle."
    elif "key 1" in last:
        said = "Su pedido está en camino."
    elif "key 2" in last:
        said = "uno, dos, tres, cuatro, cinco. " * 60
    elif last in answers and asked.get("tools"):
        said, call = answers[last]
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
