"""`costgym doctor`: ask a model server which settings it needs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from costgym.cli.options import JsonFile
from costgym.cli.output import save_json
from costgym.experiments.play.options import Model
from costgym.simulators.bounds import option
from costgym.simulators.errors import ConfigError


def doctor(
    model: Model,
    out: Annotated[Path | None, option("Also write a model file, for --model FILE:NAME.", "FILE.yaml")] = None,
    json_file: JsonFile = None,
) -> None:
    """Ask a model server at most five cheap requests, and say which settings it needs.

    Example: `costgym doctor --model openai:gpt-4o-mini`
    """
    from costgym.agents.models.named import read_model_name
    from costgym.agents.models.openai import OpenAIModel
    from costgym.experiments.play.models.doctor import diagnose, model_file
    from costgym.simulators.files import write_atomically

    name = read_model_name(model)
    if name is None or name.kind != "openai":
        raise ConfigError("--model", f"expected openai:NAME, a model behind a server, got {model!r}")
    settings = {key: value for key, value in name.settings.items() if key != "thinking"}
    diagnosis = diagnose(OpenAIModel(name.model, **settings))
    diagnosis.settings = {**settings, **diagnosis.settings}
    save_json(json_file, diagnosis.document())
    rows: dict[str, Any] = {
        "calls": f"{diagnosis.calls}{', several at once' if diagnosis.parallel_calls else ''}",
        "usage": f"{diagnosis.usage}; cached tokens {diagnosis.cache}",
        "stream": diagnosis.stream,
        "seed": diagnosis.seed,
        "context": diagnosis.context_window or "not stated",
        "price": "not in the package's tables" if diagnosis.price is None else diagnosis.price,
        "requests": diagnosis.requests,
    }
    for key, value in rows.items():
        typer.echo(f"{key:10}{value}", err=str(json_file) == "-")
    for problem in diagnosis.problems:
        typer.echo(f"problem: {problem}", err=True)
    text = model_file(diagnosis)
    if diagnosis.usable:
        typer.echo(f"\n{text}", nl=False, err=str(json_file) == "-")
        if out is not None:
            write_atomically(out, text)
    else:
        raise typer.Exit(1)
