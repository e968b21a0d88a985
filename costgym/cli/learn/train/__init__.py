"""`costgym train`: one subcommand per trainer, imported when it is used."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from costgym.cli.bridge import Verbs
from costgym.simulators.errors import check_known

TRAINERS = ("ppo", "dqn", "catp", "ift", "rltf", "deer", "toolplanner", "btp", "sft", "grpo")


class _Trainers(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(TRAINERS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        check_known("trainer", cmd_name, TRAINERS)
        single = Verbs(add_completion=False, rich_markup_mode="markdown")
        single.command(cmd_name)(getattr(import_module(f"{__package__}.trainers"), cmd_name))
        return typer.main.get_command(single)


app = typer.Typer(cls=_Trainers, no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train a policy; each trainer has its own options: `costgym train ppo --help`.

    The trained agent is `sb3:DIR`, `sessions:DIR`, `catp:DIR`, `deer:DIR` or `toolplanner:DIR`; `DIR/curves.html` shows the
    learning curves. Repeating the command continues a run.

    Example: `costgym train ppo --minutes 5 --out runs/ppo`
    """
