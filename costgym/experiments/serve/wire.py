"""Spaces, actions and observations as JSON."""

import json
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.envs.seats import without_verdicts
from costgym.experiments.serve.limits import Refused
from costgym.simulators.bounds import first_problem
from costgym.simulators.errors import UnknownName
from costgym.simulators.status import LOOKS_OK, Status

LARGEST_SEED = 2**62 - 1


class ResetRequest(BaseModel):
    """The fields of a reset, all optional: a seed, and a task by number or id, or by its index in a split."""

    model_config = ConfigDict(extra="forbid", strict=True)
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED)
    task: int | str | None = None
    split: str | None = None
    index: int | None = Field(None, ge=0)
    episode_id: str | None = Field(None, max_length=255)
    session_id: str | None = None


def read_reset(request: Mapping[str, Any]) -> ResetRequest:
    """The reset that a request asks for; raises Refused if a field is unknown or has a wrong value."""
    for name in request:
        if name not in ResetRequest.model_fields:
            raise Refused(str(UnknownName("field of reset", name[:60], ResetRequest.model_fields)))
    try:
        return ResetRequest.model_validate(request)
    except ValidationError as error:
        raise Refused("{}: {}".format(*first_problem(error))) from None


def read_action(space: gym.Space[Any], request: Mapping[str, Any]) -> Any:
    """The action of a request: `{"action": 3}` for a numeric environment, `{"action": "text"}` for a text one. The latter also
    takes the object itself, `{"name": ..., "arguments": ...}` or `{"calls": [...]}`, and OpenEnv's `{"type": "call_tool",
    ...}`. A key `metadata` is ignored. Raises Refused for another form; a text's content is not checked: a model's nonsense
    becomes an observation."""
    action = request.get("action")
    if isinstance(space, gym.spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n) - 1
        if isinstance(action, bool) or not isinstance(action, int) or not low <= action <= high:
            raise Refused(f'action: expected {{"action": a whole number from {low} to {high}}}, got {action!r:.60}')
        return action
    if isinstance(action, str):
        longest = getattr(space, "max_length", None)
        if longest is not None and len(action) > longest:
            raise Refused(f"action: expected a text of at most {longest} characters, got {len(action)}")
        return action
    if request.get("type") == "call_tool":
        return json.dumps({"name": request.get("tool_name"), "arguments": request.get("arguments", {})})
    if action is None and ("name" in request or "calls" in request):
        return json.dumps({key: value for key, value in request.items() if key not in ("metadata", "session_id")})
    raise Refused(f'action: expected {{"action": text}} or {{"name": tool, "arguments": {{...}}}}, got {dict(request)!r:.100}')


def encode_observation(observation: Any) -> dict[str, Any]:
    """An observation as JSON: ``{"text": ...}`` for a text, lists by name for arrays."""
    if isinstance(observation, str):
        return {"text": observation}
    if isinstance(observation, Mapping):
        return {name: plain(value) for name, value in observation.items()}
    return {"value": plain(observation)}


def encode_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment's `info` that an agent may know; infinite numbers (no limit) become null. The status of a call
    is the one that its caller sees: an answer that is empty or irrelevant is an answer."""
    visible = without_verdicts(dict(info)) if "statuses" in info else info
    encoded = {name: plain(value) for name, value in visible.items()}
    if "status" in encoded:
        encoded["status"] = int(seen(Status(encoded["status"])))
    return encoded


def seen(status: Status) -> Status:
    """The status of a call as its caller sees it."""
    return Status.OK if status in LOOKS_OK else status


def plain(value: Any) -> Any:
    """Convert a value to one that JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        # JSON has no infinity; nearly all arrays are finite, and need no look at each value
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [plain(element) for element in value.tolist()]
        return value.astype(int).tolist() if value.dtype.kind == "b" else value.tolist()
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(name): plain(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return str(value)


def schemas(env: gym.Env[Any, Any], by_name: bool) -> dict[str, Any]:
    """JSON schemas of `action`, `observation` and `state`; of a text environment also of the observation after a reset."""
    space, text = env.observation_space, {"type": "string"}
    if isinstance(space, gym.spaces.Dict):
        observation = _object({name: _array(inner.shape) for name, inner in space.spaces.items()})
    else:
        observation = _object({"text": text} if isinstance(space, gym.spaces.Text) else {"value": _array(space.shape)})
    id_or_none, count = {"type": ["string", "null"]}, {"type": "integer", "minimum": 0}
    state = {"session_id": id_or_none, "episode_id": id_or_none, "step_count": count, "done": {"type": "boolean"}}
    documents = {
        "action": _action_schema(env.action_space),
        "observation": observation,
        "state": {**_object(state, "done"), "additionalProperties": True},
    }
    if by_name:
        prices = {"type": "object", "additionalProperties": {"type": "number"}}
        functions = {"type": "array", "items": {"type": "object"}}
        documents["reset_observation"] = _object({"text": text, "functions": functions, "prices": prices})
    return documents


def _action_schema(space: gym.Space[Any]) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Discrete):
        low = int(space.start)
        return _object({"action": {"type": "integer", "minimum": low, "maximum": low + int(space.n) - 1}})
    call, usage = {"name": {"type": "string"}, "arguments": {"type": "object"}}, {"usage": {"type": "object"}}
    text = {"type": "string", "maxLength": getattr(space, "max_length", 100_000)}
    several = {"calls": {"type": "array", "items": _object(call, "arguments")}, **usage}
    return {
        "type": "object",
        "anyOf": [_object({"action": text}), _object({**call, **usage}, "arguments", "usage"), _object(several, "usage")],
    }


def openapi(name: str, description: str, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The OpenAPI document of the requests that play episodes."""

    def content(schema: Any) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": schema}}}

    def answers(schema: str = "") -> dict[str, Any]:
        reply = content({"$ref": f"#/components/schemas/{schema}"}) if schema else {}
        return {"responses": {"200": {"description": "OK", **reply}}}

    session = {"session_id": {"type": "string"}}
    reply = {"observation": schemas["observation"], "reward": {"type": ["number", "null"]}, "done": {"type": "boolean"}}
    posts = {
        "/reset": (ResetRequest.model_json_schema(), "Answer"),
        "/step": (_object({"action": schemas["action"], **session}), "Answer"),
        "/close": (_object(session), ""),
    }
    paths: dict[str, Any] = {
        path: {"post": {"requestBody": content(body), **answers(schema)}} for path, (body, schema) in posts.items()
    }
    named = {"name": "session_id", "in": "query", "required": True, "schema": {"type": "string"}}
    paths["/state"] = {"get": {"parameters": [named], **answers("State")}}
    paths |= {path: {"get": answers()} for path in ("/health", "/schema", "/metadata")}
    answer = _object({**reply, "metadata": {"type": "object"}}, "metadata")
    return {
        "openapi": "3.1.0",
        # OpenEnv's tools read the version of its standard over HTTP here
        "info": {"title": name, "description": description, "version": "1.0.0"},
        "paths": paths,
        "components": {"schemas": {"Answer": answer, "State": schemas["state"]}},
    }


def _array(shape: tuple[int, ...] | None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "number"}
    for length in reversed(shape or ()):
        schema = {"type": "array", "items": schema, "minItems": length, "maxItems": length}
    return schema


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}
