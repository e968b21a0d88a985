"""Try every short play of tiny random worlds: does any beat the optimum, and what would errors in its foresight look like?

    python benchmarks/hostile/optimum.py [worlds] [--forged 300] [--sessions 1000] [--errors 400] [--jobs 2] [--json FILE]

A world has one or two needs, two or three tools, and any of the rules that stand between a call and what it is for; a play is a
sequence of four calls and waits, one after the other or side by side. Forged worlds whose tools write are tried likewise. For
sessions of three queries, every policy of one tool a query is tried under many seeds against the bound that holds on average.
At last five errors are put into what the optimum foresees, one at a time, and the first of so many worlds in which a play
beats it is named.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from costgym.experiments.play.execution.engine import Local, default_jobs
from costgym.simulators.oracle import optimum
from costgym.simulators.status import Status
from tests.helpers.tiny_worlds import errors_above_the_bound, features, tiny, tiny_forged, tiny_session, wrong_with

WORLDS_PER_TASK, SESSIONS_PER_TASK = 100, 20
CHANCE = 5.0  # standard errors above the bound that luck alone does not explain
Solver = optimum._Solver
_foresee, _tool_at, _end = Solver.foresee, Solver._tool_at, Solver._end
_runs_for = optimum.runs_for


def _dearer_when_billed(self: Any, spec: Any, k: int, outage: bool) -> tuple[bool, float]:
    """The end of a call whose failure is billed whatever the rules say."""
    with patch.object(self.scratch, "rules", self.scratch.rules._replace(bill_failures=True)):
        return _end(self, spec, k, outage)


ERRORS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "only calls that would work time out": (
        optimum,
        "runs_for",
        lambda spec, drawn_s, status: _runs_for(spec, drawn_s, status) if status is Status.OK else (drawn_s, status),
    ),
    "a write that fails has no effect": (optimum, "happens", lambda *_: False),
    "prices never fall": (Solver, "_lowest_factors", lambda self: [1.0] * len(self.scratch.candidates)),
    "failures are always billed": (Solver, "_end", _dearer_when_billed),
    "a call ends as the one before": (Solver, "_tool_at", lambda self, spec, k: _tool_at(self, spec, max(0, k - 1))),
}
"""Errors in what the optimum foresees, each of which makes a call look dearer or more hopeless than it is."""


@contextmanager
def with_error(name: str) -> Iterator[None]:
    """Play with an error of `ERRORS`, or with none for an empty name."""
    with ExitStack() as stack:
        if name:
            stack.enter_context(patch.object(*ERRORS[name]))
        optimum._remembered.cache_clear()
        yield
        optimum._remembered.cache_clear()


def worlds(error: str, numbers: range) -> Iterator[tuple[int, set[str], int, str]]:
    """The number of each world, its rules, the plays that were tried, and what is wrong with its optimum."""
    with with_error(error):
        for number in numbers:
            document = tiny(Random(number))
            wrong, tried = wrong_with(document, number)
            yield number, features(document), tried, wrong


def forged(_: None, numbers: range) -> Iterator[tuple[int, set[str], int, str]]:
    """The same of forged worlds whose tools write; their rules are the roles of tools and the number of needs."""
    for number in numbers:
        document, task = tiny_forged(Random(number))
        wrong, tried = wrong_with(document, number, task)
        tools = document["source"]["tools"]
        held = {role for role in ("writes", "checks", "compensates", "idempotent") if any(tool.get(role) for tool in tools)}
        yield number, held | {f"budget of {next(iter(document['budget']), 'nothing')}"}, tried, wrong


def sessions(_: None, numbers: range) -> Iterator[tuple[int, float]]:
    """The number of each session, and by how many standard errors the best policy is above its bound."""
    for number in numbers:
        random = Random(number)
        rules, budget = tiny_session(random)
        yield number, errors_above_the_bound(rules, number, budget, random.choice(("refuse", "terminate")))


def tasks(count: int, size: int) -> list[range]:
    return [range(begin, min(begin + size, count)) for begin in range(0, count, size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="?", type=int, default=10_000)
    parser.add_argument("--forged", type=int, default=300)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--errors", type=int, default=400, help="worlds that each error is looked for in")
    parser.add_argument("--jobs", type=int, default=default_jobs())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    engine, begin = Local(options.jobs), time.monotonic()
    rules: Counter[str] = Counter()
    beaten, tried = list[str](), 0
    for number, held, plays, wrong in engine.stream(worlds, "", tasks(options.worlds, WORLDS_PER_TASK)):
        rules.update(held)
        tried += plays
        if wrong:
            beaten.append(f"world {number}: {wrong}")
            print(beaten[-1], flush=True)
        if (number + 1) % 1000 == 0:
            print(f"{number + 1} worlds, {tried:,} plays, {time.monotonic() - begin:.0f} s", flush=True)
    roles: Counter[str] = Counter()
    forged_beaten, forged_tried = list[str](), 0
    for number, held, plays, wrong in engine.stream(forged, None, tasks(options.forged, SESSIONS_PER_TASK)):
        roles.update(held)
        forged_tried += plays
        forged_beaten += [f"forged world {number}: {wrong}"] if wrong else []
    print(
        f"{options.forged} forged worlds, {forged_tried:,} plays, {dict(sorted(roles.items()))}; beaten: {forged_beaten}",
        flush=True,
    )
    above = dict(engine.stream(sessions, None, tasks(options.sessions, SESSIONS_PER_TASK)))
    shown = {}
    for error in ERRORS:
        results = engine.stream(worlds, error, tasks(options.errors, WORLDS_PER_TASK))
        wrongs = [(number, wrong) for number, _, _, wrong in results if wrong]
        first = f"; first in world {wrongs[0][0]}: {wrongs[0][1]}" if wrongs else ""
        shown[error] = f"{len(wrongs)} of {options.errors} worlds{first}"
        print(f"{error}: {shown[error]}", flush=True)
    report = {
        "worlds": options.worlds,
        "plays": tried,
        "rules": dict(sorted(rules.items())),
        "beaten": beaten,
        "forged_worlds": options.forged,
        "forged_plays": forged_tried,
        "forged_rules": dict(sorted(roles.items())),
        "forged_beaten": forged_beaten,
        "sessions": options.sessions,
        "sessions_beaten": [f"session {number}: {errors:.1f}" for number, errors in above.items() if errors > CHANCE],
        "highest_standard_errors_above": round(max(above.values(), default=0.0), 2),
        "sessions_within_two_standard_errors_of_the_bound": sum(abs(errors) < 2 for errors in above.values()),
        "errors_in_foresee": shown,
        "minutes": round((time.monotonic() - begin) / 60, 1),
    }
    write_report(report, options.json)
    missed = any(text.startswith("0 of") for text in shown.values())
    sys.exit(bool(beaten or forged_beaten or report["sessions_beaten"] or missed))


if __name__ == "__main__":
    main()
