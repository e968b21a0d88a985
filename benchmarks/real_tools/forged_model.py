"""Play a language model of a server in a forged world of ten tools that write, and say why it fails, and whose fault that is.

python benchmarks/real_tools/forged_model.py --model openai:NAME [--cache FOLDER]   # of the server that OPENAI_BASE_URL names
python benchmarks/real_tools/forged_model.py --gguf FILE [--threads 2]               # xllamacpp serves the file
python benchmarks/real_tools/forged_model.py --agent oracle                          # the optimum on the same episodes

A failure is the world's fault where no play could have passed: the task cannot be solved by what its query and the answers say,
a right call is refused or its answer lacks the fact, or no play within the budget passes under the luck of the episode.
`--cache` keeps replies, so that a run that was interrupted goes on, and is played again without the model.
"""

import argparse
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
import costgym
from benchmarks.report import write_report
from costgym.agents.registry import make_agent, make_model
from costgym.envs.base import base_env
from costgym.envs.why import why
from costgym.experiments.fit.forge.forge import _problem_of_task as problem_of_task
from costgym.experiments.fit.forge.forge import forge
from costgym.experiments.play.trajectories.record import record
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.status import Origin

DOCUMENT = Path(__file__).parents[1] / "documents" / "shop.yaml"  # ten operations, five of which write


@contextmanager
def served(gguf: Path | None, threads: int, context: int) -> Iterator[None]:
    """Serve a GGUF file on this machine, and name its server in the environment; nothing where there is no file."""
    if gguf is None:
        yield
        return
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.use_jinja = str(gguf), True
    parameters.n_ctx, parameters.n_parallel = context, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        parameters.port = free.getsockname()[1]
    server = xllamacpp.Server(parameters)
    os.environ["OPENAI_BASE_URL"] = f"{server.listening_address}/v1"
    yield


def fault_of_the_world(world: Any) -> str:
    """Why no play of an episode could have passed, in words; empty where one could."""
    task, built = world.task, world.world
    if problem := problem_of_task(built, task):
        return problem
    return "" if world.optimum().feasible else "no play within the budget passes under this luck"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--agent", default="react")
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--budget", type=float, default=60.0, help="credits of tools and tokens")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--cache", type=Path, help="folder of replies")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.cache is not None:
        os.environ["COSTGYM_CACHE"] = str(options.cache)
    made, tally = forge([str(DOCUMENT)], "shop", 0, own=True)
    print(f"{tally.used} of {tally.operations} tools are used, {tally.written} of them write", flush=True)
    chat = {} if options.agent == "oracle" else {"tool_order": "stable"}  # a server reads what tasks have in common once
    view = "MarketplaceChat-v1" if chat else "Marketplace-v0"
    env = costgym.make(f"costgym/{view}", scenario=parse_scenario(made), budget={"price": options.budget}, **chat)
    world = base_env(env)
    rows = []
    with served(options.gguf, options.threads, options.context):
        model = None if options.agent == "oracle" else make_model(options.model or "openai:served,timeout_s=1800")
        agent = make_agent(options.agent, model=model)
        for index in range(options.episodes):
            number, seed, _ = world.instance(index, 0)
            begin = time.monotonic()
            trajectory, episode = record(env, agent, number, seed, index)
            passed = bool(episode.success)
            statuses = Counter(call.status.label for call in episode.calls if call.status.origin is not Origin.NONE)
            row = {
                "task": episode.task.query, "passed": passed, "calls": len(episode.calls), "errors": dict(statuses),
                "tokens": episode.ledger.tokens, "cost": round(float(episode.ledger.price), 2),
                "replies": {name: count for name, count in (getattr(agent, "replies", None) or {}).items() if count},
                "actions": [str(action) for action in trajectory.actions],
                "answers": [[call.tool, call.status.label, call.answer] for call in episode.calls],
                "why": "" if passed else why(world), "world": "" if passed else fault_of_the_world(world),
            }  # fmt: skip
            rows.append(row)
            print(f"{index + 1}. {'pass' if passed else 'FAIL'} {time.monotonic() - begin:.0f} s {row['task']}", flush=True)
            if not passed:
                print(f"     {row['why']}{' | the world: ' + row['world'] if row['world'] else ''}", flush=True)
    failed = [row for row in rows if not row["passed"]]
    report = {
        "model": options.gguf.name if options.gguf else options.model, "agent": options.agent, "episodes": len(rows),
        "passed": len(rows) - len(failed), "world_at_fault": sum(bool(row["world"]) for row in failed),
        "calls": sum(row["calls"] for row in rows), "tokens": sum(row["tokens"] for row in rows),
        "errors": dict(sum((Counter(row["errors"]) for row in rows), Counter())), "rows": rows,
    }  # fmt: skip
    print(f"{report['passed']} of {report['episodes']} passed; failures that are the world's fault: {report['world_at_fault']}")
    write_report(report, options.json)


if __name__ == "__main__":
    main()
