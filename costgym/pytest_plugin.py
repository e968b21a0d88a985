"""A pytest fixture that fails a test when a change makes an agent dearer or worse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def costgym_gate() -> Callable[..., Any]:
    """Compare an agent with its baseline file, which `costgym gate AGENT --write-baseline FILE` writes.

    The fixture is a function `(agent, baseline, max_cost=0.05, max_drop=2.0, env=None, **arguments)`; `agent` is a name or
    FILE.py:CLASS, and `arguments` are those of the environment, such as `scenario` and `budget`. It returns the verdict, and
    raises AssertionError with its sentence where the change does not pass.
    """

    def compare(
        agent: str,
        baseline: str | Path,
        max_cost: float = 0.05,
        max_drop: float = 2.0,
        env: str | None = None,
        **arguments: Any,
    ) -> Any:
        from costgym.cli.options import WorldOptions
        from costgym.cli.players import entry_and_id
        from costgym.experiments.play.costs import gate as gates

        before, options = gates.read_baseline(Path(baseline)), WorldOptions(**arguments)
        entry, env_id = entry_and_id(agent, env or before.env_id, options)
        played, player, _ = gates.contestants(entry, env_id, options.arguments(env_id))
        verdict = gates.gate(before, played, player, max_cost, max_drop)
        assert verdict.passed, verdict.sentence
        return verdict

    return compare
