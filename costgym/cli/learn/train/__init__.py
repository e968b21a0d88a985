"""`costgym train`: one subcommand per trainer, imported when it is used."""

from typing import Any, ClassVar

from costgym.cli.verbs import Entry, LazyGroup, Verbs
from costgym.simulators.errors import check_known

SUMMARIES = {
    "ppo": "Train MaskablePPO (Stable-Baselines3); the agent is `sb3:DIR`, or `sessions:DIR` in sessions.",
    "dqn": "Train DQN (Stable-Baselines3) in the marketplace; the agent is `sb3:DIR`.",
    "catp": "Train CATP-LLM offline on executed plans; the agent is `catp:DIR`.",
    "ift": "Train the baseline of instruction fine-tuning; the agent is `ift:DIR`.",
    "rltf": "Train the baseline of learning from task feedback; the agent is `rltf:DIR`.",
    "deer": "Train DEER's policy; the agent is `deer:DIR`.",
    "toolplanner": "Train ToolPlanner; the agent is `toolplanner:DIR`.",
    "btp": "Train BTP's classifier of results, for `--usefulness DIR`.",
    "sft": "Fine-tune a language model on solved episodes; the result is `DIR/model`.",
    "grpo": "Train a tool-calling language model by GRPO (TRL); the result is `DIR/model`.",
}


class _Trainers(LazyGroup):
    entries: ClassVar = {name: Entry("Trainers", summary, f"{__name__}.trainers:{name}") for name, summary in SUMMARIES.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        check_known("trainer", args[0], self.entries)
        return super().resolve_command(ctx, args)


app = Verbs(cls=_Trainers)


@app.callback()
def train() -> None:
    """Train a policy; each trainer has its own options: `costgym train ppo --help`.

    The trained agent is `sb3:DIR`, `sessions:DIR`, `catp:DIR`, `deer:DIR` or `toolplanner:DIR`; `DIR/curves.html` shows the
    learning curves. Repeating the command continues a run.

    Example: `costgym train ppo --minutes 5 --out runs/ppo`
    """
