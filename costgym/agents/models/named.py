"""Real models by name: ``openai:MODEL`` behind a server, ``local:MODEL`` on this machine, with settings after commas.

    openai:gpt-4o-mini-2024-07-18,temperature=0.7
    local:runs/model,adapter=runs/adapter,max_tokens=256
    models.yaml:thinker

The last is an entry of a model file, `models: {thinker: {model: openai:NAME, SETTING: VALUE, ...}}`, and stands for the name
with these settings written out; runs record that. A name holds all that tells two models apart but a server's URL and its key,
which come from the environment alone. With ``COSTGYM_CACHE`` set to a folder, replies are kept there and asked for once.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import TypeAdapter

from costgym.agents.models.base import LanguageModel
from costgym.agents.models.batched import ManyAtOnce
from costgym.agents.models.cached import Cached, Measured
from costgym.agents.models.local import Dtype, LocalModel
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE, OpenAISettings, on_this_machine, server_url
from costgym.agents.models.prices import load_prices, shipped_prices
from costgym.agents.models.simulated import SIMULATED
from costgym.simulators.bounds import Settings
from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.files import read_yaml
from costgym.simulators.scenario import Scenario

CACHE_VARIABLE = "COSTGYM_CACHE"
_FILE_ENDINGS = (".yaml", ".yml")


class _LocalSettings(Settings):
    """Settings of `LocalModel` that its name may hold."""

    adapter: str | None = None
    sha256: str | None = None
    dtype: Dtype | None = None
    device: str | None = None
    temperature: float = 0.0
    max_tokens: int = 512


_SETTINGS: Mapping[str, type[Settings]] = {"openai": OpenAISettings, "local": _LocalSettings}
_EXPECTED = {
    "extra_body": "a JSON object",
    "headers": "a JSON object",
    "calls": "auto, native, json or text",
    "dtype": "float32 or bfloat16",
    "send_seed": "true or false",
    "stream": "true or false",
    "system": "system or user",
    "thinking": "tokens or measured",
}


def _read(kind: str, key: str, text: str) -> Any:
    """Return the value of a setting in a name; raises ValueError unless it has the setting's type."""
    if key == "thinking":  # the one setting that is not the model's: `Measured` stands in front of it
        return TypeAdapter(Literal["tokens", "measured"]).validate_python(text)
    field = _SETTINGS[kind].model_fields[key]
    if key in ("calls", "system", "dtype"):
        return TypeAdapter(cast(Any, field.annotation)).validate_python(text)
    if key == "temperature" and text in ("none", "null"):
        text = "null"
    if field.annotation in (str, str | None):
        return text
    adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, field.annotation))
    return adapter.validate_json(text, strict=True)


class ModelName(NamedTuple):
    """A name, read."""

    kind: str  # "openai" or "local"
    model: str  # the name on the server, or the folder, GGUF file or hub name
    settings: dict[str, Any]


def read_model_name(name: str) -> ModelName | None:
    """The parts of a real model's name, None for another; raises ConfigError or UnknownName for a setting that is wrong.

    >>> read_model_name("openai:tiny,temperature=0.5")
    ModelName(kind='openai', model='tiny', settings={'temperature': 0.5})
    """
    name = full_name(name)
    kind, _, rest = name.partition(":")
    model, *written = _parts(rest)
    if kind not in _SETTINGS or not model:
        return None
    settings: dict[str, Any] = {}
    for part in written:
        key, _, value = part.partition("=")
        known = (*_SETTINGS[kind].model_fields, "thinking")
        check_known(f"setting of {kind}:{model}", key, known)
        try:
            settings[key] = _read(kind, key, value)
        except ValueError:
            expected = _EXPECTED.get(key, "a number")
            raise ConfigError(f"--model {kind}:{model}", f"{key}: expected {expected}, got {value!r}") from None
    return ModelName(kind, model, settings)


def full_name(name: str) -> str:
    """A model's name with the settings of its model file written out; raises DataError where that makes no sense."""
    file, colon, entry = name.rpartition(":")
    if not colon or not file.endswith(_FILE_ENDINGS):
        return name
    document = read_yaml(Path(file))
    models = document.get("models") if isinstance(document, dict) else None
    if not isinstance(models, dict):
        raise DataError(file, "expected `models:` with an entry for each name")
    check_known(f"model in {file}", entry, models)
    settings = dict(models[entry]) if isinstance(models[entry], dict) else {}
    model = settings.pop("model", None)
    if not isinstance(model, str) or (model != SIMULATED and model.partition(":")[0] not in _SETTINGS):
        expected = "expected `model: openai:NAME`, `local:FOLDER` or `simulated`"
        raise DataError(file, f"{expected}, got {model!r:.60}", f"models.{entry}")
    written = (
        "none" if value is None else value if isinstance(value, str) else json.dumps(value) for value in settings.values()
    )
    pairs = [f"{key}={value}" for key, value in zip(settings, written, strict=True)]
    return ":".join([model, *filter(None, [",".join(pairs)])]) if model == SIMULATED else ",".join([model, *pairs])


def _parts(text: str) -> list[str]:
    """Return the parts between commas; those inside a JSON object do not count."""
    # a small scanner: JSON values such as {"a": "x,y"} hold commas and braces of their own, inside and outside of strings
    parts, depth, quoted, before = [""], 0, False, ""
    for letter in text:
        if letter == '"' and before != "\\" and depth:
            quoted = not quoted
        elif letter in "{}" and not quoted:
            depth += 1 if letter == "{" else -1
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
        before = letter
    return parts


def make_real_model(name: ModelName) -> LanguageModel:
    """The model of a name, behind the reply cache in ``COSTGYM_CACHE``; raises ConfigError where it cannot be loaded."""
    model: LanguageModel
    settings = dict(name.settings)
    thinking = settings.pop("thinking", "tokens")
    if name.kind == "openai":
        from costgym.agents.models.openai import OpenAIModel

        model = OpenAIModel(name.model, **settings)
    else:
        model = LocalModel(name.model, **settings)
    if thinking == "measured":
        model = Measured(model)
    folder = os.environ.get(CACHE_VARIABLE)
    if not folder:
        return model
    location = server_url() if name.kind == "openai" else str(Path(name.model).resolve())
    return Cached(model, Path(folder) / "replies.sqlite", f"{name.kind} {location} {sorted(name.settings.items())}")


def many_at_once(name: str) -> ManyAtOnce:
    """The greedy model of a name as one that replies to several episodes in one batch; raises ConfigError for others."""
    read = read_model_name(name)
    if read is None or read.kind != "local" or read.settings.get("temperature", 0.0) > 0:
        raise ConfigError("--batch", f"expected --model local:FOLDER with temperature 0, got {name!r}")
    if "thinking" in read.settings or CACHE_VARIABLE in os.environ:
        raise ConfigError("--batch", f"expected neither {CACHE_VARIABLE} nor `thinking`, which are for one reply at a time")
    return cast(ManyAtOnce, make_real_model(read))


def variables_of(name: str) -> tuple[str, ...]:
    """Return the environment variables that a model of this name reads, wherever it is made; none for a simulated model.

    >>> variables_of("openai:tiny")
    ('OPENAI_API_KEY', 'OPENAI_BASE_URL', 'COSTGYM_CACHE')
    """
    real = read_model_name(name)
    if real is None:
        return ()
    return (KEY_VARIABLE, URL_VARIABLE, CACHE_VARIABLE) if real.kind == "openai" else (CACHE_VARIABLE,)


def priced_for(scenario: Scenario, model: str, table: str | Path | None = None) -> Scenario:
    """The scenario in which a real model's tokens cost what the price table says; checked before anything runs.

    A model whose thinking is `measured` makes the scenario's measured too. Without a table those of the package hold where the
    scenario prices no tokens itself; a model on this machine is free there unless it is listed. Raises ConfigError, DataError
    or UnknownName where there is nothing to price, the table cannot be read or does not list the model.
    """
    name = read_model_name(model)
    if name is None:
        if table is not None:
            raise ConfigError("--prices", f"{model} is not a real model; the scenario's own token prices hold")
        return scenario
    if name.settings.get("thinking") == "measured":
        scenario = scenario.model_copy(update={"thinking": "measured"})
    if table is not None:
        return load_prices(table).price(scenario, name.model)
    if scenario.tokens is not None:
        return scenario
    prices = shipped_prices(name.model)
    if name.model in prices.models:
        return prices.price(scenario, name.model)
    if name.kind == "local" or on_this_machine(server_url()):
        return scenario
    advice = "write its prices into a table of your own and pass that with --prices FILE"
    newest = prices.date.isoformat()
    raise ConfigError("--prices", f"{name.model} is not in the package's tables, the newest of {newest}; {advice}")
