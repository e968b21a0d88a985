"""`costgym train`: one subcommand per trainer, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from ....simulators.errors import UnknownName
from ...output import PlainCommand

TRAINERS = {
    "ppo": "sb3",
    "dqn": "sb3",
    "catp": "catp",
    "ift": "catp",
    "rltf": "catp",
    "deer": "deer",
    "toolplanner": "toolplanner",
    "btp": "btp",
    "sft": "sft",
    "grpo": "grpo",
}
"""The module of each trainer's subcommand."""


class _Trainers(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(TRAINERS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in TRAINERS:
            raise UnknownName("trainer", cmd_name, TRAINERS)
        single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        module = import_module(f"{__package__}.{TRAINERS[cmd_name]}")
        single.command(cmd_name, cls=PlainCommand)(getattr(module, cmd_name))
        return typer.main.get_command(single)


app = typer.Typer(cls=_Trainers, no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train a policy; each trainer has its own options: `costgym train ppo --help`.

    The trained agent is `sb3:DIR`, `catp:DIR`, `deer:DIR` or `toolplanner:DIR`; `DIR/curves.html` shows the learning curves.
    Repeating the command continues a run.

    Example: `costgym train ppo --minutes 5 --out runs/ppo`
    """
