#!/usr/bin/env python3
"""Independent check of Gemini Live messages, with the types of Google's own package `google-genai`.

usage:  validate_gemini.py FILE|-

Reads JSON lines, {"side":"client","conn":1,"event":{...}} or "side":"server". Each message must be what LiveClientMessage or
LiveServerMessage says, in strict mode (but for base64), and hold nothing that these do not know, at any depth, under the names that the wire uses:
the package itself would take others. What depends on order: a connection's first message is `setup`, there is no other one, the
service says nothing before; only calls that were made are answered, and none of them again after its last answer; activities begin
and end in turns, and audio comes in them.
exit status: 0 all valid, 1 some line invalid, 2 usage or parse error
"""
import base64
import copy
import json
import sys
import warnings

import pydantic
from google.genai import types

warnings.simplefilter("error")

SIDES = {"client": types.LiveClientMessage, "server": types.LiveServerMessage}


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return [annotation]
    found = []
    for inner in getattr(annotation, "__args__", None) or ():
        found.extend(models_in(inner))
    return found


def unknown(model, value, path):
    """What of the value stands under no name that the model has on the wire."""
    if not isinstance(value, dict):
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, inner in value.items():
        if key not in fields:
            yield f"{path}.{key}: no such field"
            continue
        choices = models_in(fields[key].annotation)
        # A map of anything is anybody's.
        if not choices or "dict" in str(fields[key].annotation) and not isinstance(inner, (dict, list)):
            continue
        for n, item in enumerate(inner if isinstance(inner, list) else [inner]):
            problems = [list(unknown(choice, item, f"{path}.{key}[{n}]")) for choice in choices]
            if all(problems):
                yield from min(problems, key=len)


def wrong(model, message):
    """What is wrong with a message, or a part of one."""
    yield from unknown(model, message, model.__name__)
    try:
        model.model_validate(decoded(message), strict=True)
    except pydantic.ValidationError as error:
        # The package's own maps from words to its enumerations are no strict ones.
        yield from (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors() if problem["type"] != "is_instance_of")
    except (UserWarning, ValueError) as error:
        yield str(error)
    try:
        model.model_validate_json(json.dumps(message))
    except (pydantic.ValidationError, UserWarning) as error:
        yield str(error).replace("\n", " ")


def decoded(value):
    """The same, with what is base64 as the bytes that it stands for."""
    if isinstance(value, dict):
        return {key: base64.b64decode(inner, validate=True) if key == "data" and isinstance(inner, str) else decoded(inner) for key, inner in value.items()}
    return [decoded(inner) for inner in value] if isinstance(value, list) else value


class Connection:
    """What depends on order."""

    def __init__(self):
        self.set = self.ready = self.activity = False
        self.made, self.over = set(), set()

    def check(self, side, message):
        if side == "server":
            if not self.set:
                yield "the service speaks before there is a session"
            self.ready = self.ready or "setupComplete" in message
            for call in message.get("toolCall", {}).get("functionCalls", []):
                self.made.add(call["id"])
            return
        if ("setup" in message) == self.set:
            yield "a connection begins with `setup`, and has no other one"
        self.set = True
        if "setup" not in message and not self.ready:
            yield "nothing is sent before the session is set"
        if len(message) != 1:
            yield "a message says one thing"
        for response in message.get("toolResponse", {}).get("functionResponses", []):
            if response["id"] not in self.made:
                yield f"there is no call {response['id']}"
            if response["id"] in self.over:
                yield f"{response['id']} is answered after its last answer"
            if not response.get("willContinue"):
                self.over.add(response["id"])
        realtime = message.get("realtimeInput", {})
        if "activityStart" in realtime:
            if self.activity:
                yield "an activity begins in another one"
            self.activity = True
        elif realtime and not self.activity:
            yield "what is said is said in an activity"
        if "activityEnd" in realtime:
            self.activity = False


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with sys.stdin if sys.argv[1] == "-" else open(sys.argv[1], encoding="utf-8") as lines:
        lines = [line for line in lines if line.strip()]
    connections, failed = {}, 0
    for number, line in enumerate(lines, 1):
        tagged = json.loads(line)
        side, message = tagged["side"], tagged["event"]
        model = SIDES[side]
        parts = [(model, copy.deepcopy(message))]
        # The package writes this itself, and knows it only as a part of its own settings.
        if "realtimeInputConfig" in message.get("setup", {}):
            parts.append((types.RealtimeInputConfig, parts[0][1]["setup"].pop("realtimeInputConfig")))
        problems = [problem for part in parts for problem in wrong(*part)]
        problems += connections.setdefault(tagged["conn"], Connection()).check(side, message)
        if problems:
            failed += 1
            print(f"line {number}: {'; '.join(problems)}\n  {json.dumps(message)[:400]}")
    print(f"{len(lines) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
