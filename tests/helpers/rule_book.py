"""Where each of the world's fourteen rules is stated, and words of its statement that stand nowhere else."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import costgym
from costgym.simulators.rules import actions, calls, events, failures, gateway, grades, sessions, writes
from costgym.simulators.world.data import WorldData

ROOT = Path(costgym.__file__).parents[1]
EXPECTATIONS = ("belief.py", "session_draws.py")  # what a call brings on average, by the same figures


class Stated(NamedTuple):
    """A rule: its number in the docstring of `world`, what it is about, the function that states it, and a pattern of it."""

    number: int
    about: str
    function: Callable[..., Any]
    pattern: str

    @property
    def location(self) -> str:
        """File and line."""
        code = inspect.unwrap(self.function).__code__
        return f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno}"


RULES = (
    Stated(1, "what happens at a time, in order", events.happen, r"layout\.report_event\("),
    Stated(2, "a refusal takes the gateway's time", actions.refuse, r"(advance|pause|sleep|\+=).*rules\.gateway_s"),
    Stated(3, "quota", gateway.barred, r">= [a-z.]*quota\b"),
    Stated(3, "rate limit", gateway.expired, r"- [a-z.]*window_s"),
    Stated(4, "slots and memory", gateway.must_wait, r"calls_held\(tool\) >= [a-z.]*concurrency"),
    Stated(5, "instances", calls.is_warm, r"<= [a-z.]*keep_alive_s"),
    Stated(6, "duration", calls.runs_for, r"duration > [a-z.]*timeout_s"),
    Stated(7, "outcome", failures.start_next, r"pull \* "),
    Stated(8, "price", calls.price_of, r"return factor \* \(spec\.fee \+"),
    Stated(9, "thinking", WorldData.thinking_s, r"/ [a-z.]*tokens_per_s"),
    Stated(10, "waiting", actions.wait, r"layout\.take_news"),
    Stated(10, "pauses of sessions", sessions.pause, r"end(s|_at\().*[<>].*now.*\+ .*(seconds|PAUSE_S)"),
    Stated(11, "budgets", gateway.passed_limit, r"> [a-z.]*price_limit"),
    Stated(12, "grade", grades.grade, r"met == required"),
    Stated(13, "writes", writes.happens, r"luck < effect\.happens"),
    Stated(14, "sessions", sessions.recall, r"found_s <="),
)


def places_of(pattern: str) -> Iterator[str]:
    """Files and lines of the simulator and the environments whose code, outside of docstrings of modules, holds a pattern."""
    wanted = re.compile(pattern)
    for folder in ("simulators", "envs"):
        for path in sorted((ROOT / "costgym" / folder).rglob("*.py")):
            if path.name not in EXPECTATIONS:
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    if wanted.search(line) and not line.startswith(("9.",)):
                        yield f"{path.relative_to(ROOT)}:{number}"


def table() -> str:
    """The rules in Markdown, one row each."""
    lines = ["| rule | about | stated in |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {rule.number} | {rule.about} | `{rule.location}` |" for rule in RULES)])
