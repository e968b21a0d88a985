"""Measure `costgym rank`: overhead of a request through the isolated endpoint, kills of commands and of itself, frameworks.

python benchmarks/commands.py overhead [--requests 400]     # milliseconds a request, isolated and not
python benchmarks/commands.py kills [--episodes 1000] [--concurrency 16] [--rank-kills 6]
python benchmarks/commands.py frameworks [--episodes 24] [--python PATH]   # each example beside react
python benchmarks/commands.py steps -- COMMAND...           # an agent that nobody here wrote: commands typed until it is ranked

`kills` plays an agent that kills itself in some episodes, kills `rank` at random moments, and continues it; then every episode
must be there once, every trajectory must verify, and each undisturbed episode must cost what it costs in an undisturbed run.
"""

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

COSTGYM = (sys.executable, "-m", "costgym")
EXAMPLES = Path(__file__).parents[1] / "examples" / "commands"
AGENT = """
import http.client, json, os, signal, sys, urllib.parse
tools = urllib.parse.urlsplit(os.environ["COSTGYM_TOOLS_URL"])
model = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
task = os.environ["COSTGYM_TASK"]
link = http.client.HTTPConnection(tools.hostname, tools.port)
def post(url, body):
    link.request("POST", url, json.dumps(body), {"Content-Type": "application/json"})
    return json.load(link.getresponse())
link.request("GET", tools.path)
functions = json.load(link.getresponse())
if sum(map(ord, task)) % 9 == 0:
    os.kill(os.getpid(), signal.SIGKILL)
messages = [{"role": "system", "content": "Use the tools, then call finish."}, {"role": "user", "content": task}]
for _ in range(24):
    body = {"model": "m", "messages": messages, "tools": [{k: f[k] for k in ("type", "function")} for f in functions]}
    message = post(model.path + "/chat/completions", body)["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        answer = post(tools.path + "/" + name, arguments)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer["content"]})
        if name == "finish":
            sys.exit()
print(message.get("content") or "")
"""
PROBE = """
import http.client, json, os, time, urllib.parse
model, count = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"]), int(os.environ["PROBE_REQUESTS"])
link = http.client.HTTPConnection(model.hostname, model.port)
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Plan."}]})
times = []
for _ in range(count):
    begin = time.perf_counter()
    link.request("POST", model.path + "/chat/completions", body, {"Content-Type": "application/json"})
    link.getresponse().read()
    times.append(1000 * (time.perf_counter() - begin))
fresh = []
for _ in range(count // 4):
    begin = time.perf_counter()
    once = http.client.HTTPConnection(model.hostname, model.port)
    once.request("POST", model.path + "/chat/completions", body, {"Content-Type": "application/json"})
    once.getresponse().read()
    fresh.append(1000 * (time.perf_counter() - begin))
print(json.dumps({"kept": times, "new": fresh}))
"""


def overhead(requests: int) -> dict[str, Any]:
    """Milliseconds from a command's request to its answer, where the model answers at once."""
    from costgym.agents.models.base import ASSISTANT, Message, Reply
    from costgym.experiments.serve.command.desk import Desk, Exit, ModelRequest
    from costgym.experiments.serve.command.endpoint import endpoint
    from costgym.experiments.serve.command.process import BUBBLEWRAP, NONE, CommandProcess, why_not_isolated
    from costgym.simulators.calls import Usage

    reply = Reply(Message(ASSISTANT, "A plan."), Usage(10, 3))
    figures: dict[str, Any] = {}
    os.environ["PROBE_REQUESTS"] = str(requests)
    for isolation in (NONE, *(() if why_not_isolated() else (BUBBLEWRAP,))):
        desk, server = Desk(), endpoint()
        token = server.open(desk)
        words = (sys.executable, "-c", PROBE)
        process = CommandProcess(words, server.variables(token), isolation, server.socket_path, server.port, desk.exited)
        while isinstance(request := desk.take(time.monotonic() + 120), ModelRequest):
            request.answer.set_result(reply)
        assert isinstance(request, Exit) and request.status == 0, process.last_error
        times = json.loads(process.last_line)
        process.close()
        server.close(token)
        figures[isolation] = {
            kind: {
                "median_ms": round(statistics.median(listed), 2),
                "p95_ms": round(sorted(listed)[int(0.95 * len(listed))], 2),
            }
            for kind, listed in times.items()
        }
    print(json.dumps(figures, indent=1))
    return figures


def ranked(agent: Path, out: Path, episodes: int, concurrency: int) -> list[str]:
    board = ("--scenario", "marketplace-small", "--beside", "", "--budget", "price=30", "--quiet", "--out", str(out))
    return [
        *COSTGYM,
        "rank",
        *board,
        "--episodes",
        str(episodes),
        "--concurrency",
        str(concurrency),
        "--",
        sys.executable,
        str(agent),
    ]


def kills(episodes: int, concurrency: int, rank_kills: int) -> dict[str, Any]:
    """Play with kills, and without those of `rank`, and compare."""
    draws, begin = random.Random(5), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = folder / "agent.py"
        agent.write_text(AGENT)
        out, killed = folder / "run", 0
        while True:
            process = subprocess.Popen(ranked(agent, out, episodes, concurrency), start_new_session=True)
            patience = draws.uniform(3, 3 + episodes / 12) if killed < rank_kills else None
            try:
                process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                killed += 1
        whole = folder / "whole"
        played = time.monotonic() - begin
        subprocess.run(ranked(agent, whole, episodes, concurrency), check=True)
        rows = {
            path: [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()] for path in (out, whole)
        }
        verified = (
            subprocess.run([*COSTGYM, "verify", str(out)], capture_output=True, text=True).stdout.strip().splitlines()[-1]
        )
        same = sum(a == b for a, b in zip(rows[out], rows[whole], strict=True))
        differing = [a["episode"] for a, b in zip(rows[out], rows[whole], strict=True) if a["price"] != b["price"]]
        report = {
            "episodes": episodes, "concurrency": concurrency, "kills_of_rank": killed,
            "kills_of_commands": sum(bool(row.get("crash")) for row in rows[out]), "recorded": len(rows[out]),
            "missing": sorted(set(range(episodes)) - {row["episode"] for row in rows[out]}),
            "twice": len(rows[out]) - len({row["episode"] for row in rows[out]}), "verified": verified,
            "equal_to_undisturbed": same, "other_cost_than_undisturbed": differing,
            "seconds_with_kills": round(played),
            "peak_MB_of_rank": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
        }  # fmt: skip
    print(json.dumps(report, indent=1))
    return report


def frameworks(episodes: int, python: str) -> dict[str, Any]:
    """Each example beside `react`, verified and packed."""
    report: dict[str, Any] = {}
    commands = {
        "curl": ["sh", str(EXAMPLES / "curl.sh")],
        **{
            name: [python, str(EXAMPLES / f"{file}.py")]
            for name, file in (
                ("langgraph", "langgraph_agent"),
                ("agents-sdk", "openai_agents"),
                ("pydantic-ai", "pydantic_agent"),
            )
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, words in commands.items():
            out, entry = Path(folder) / name, Path(folder) / f"{name}-entry"
            more = ("--pack", str(entry), "--contact", "a@example.org", "--name", name)
            subprocess.run([*COSTGYM, "rank", "--episodes", str(episodes), "--out", str(out), "--quiet", *more, "--", *words])
            if not (out / "leaderboard.json").exists():
                report[name] = "did not end"
                continue
            checked = subprocess.run(
                [*COSTGYM, "submit", "validate", str(entry)], capture_output=True, text=True
            ).stdout.strip()
            for row in json.loads((out / "leaderboard.json").read_text())["rows"]:
                keys = ("pass_rate_under_budget", "average_cost", "average_tokens", "crashed_episodes", "isolated")
                classes = {key: row[key] for key in row if "tokens" in key or "requests" in key}
                report[row["agent"]] = (
                    {key: row.get(key) for key in keys} | classes | {"entry": checked if "command" in row["agent"] else ""}
                )
    print(json.dumps(report, indent=1))
    return report


def steps(words: list[str]) -> dict[str, Any]:
    """Play a command on 24 episodes beside `react`, and pack it: what a user types until it is ranked."""
    with tempfile.TemporaryDirectory() as folder:
        out, entry = Path(folder) / "run", Path(folder) / "entry"
        more = ["--pack", str(entry), "--contact", "a@example.org", "--episodes", "24", "--out", str(out)]
        begin = time.monotonic()
        done = subprocess.run([*COSTGYM, "rank", *more, "--", *words])
        checked = subprocess.run([*COSTGYM, "submit", "validate", str(entry)], capture_output=True, text=True).stdout.strip()
        return {"status": done.returncode, "seconds": round(time.monotonic() - begin), "entry": checked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "kills", "frameworks", "steps"))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rank-kills", type=int, default=6)
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the examples, whose frameworks may need another mcp"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "overhead":
        report = overhead(options.requests)
    elif options.what == "kills":
        report = kills(options.episodes or 1000, options.concurrency, options.rank_kills)
    elif options.what == "frameworks":
        report = frameworks(options.episodes or 24, options.python)
    else:
        report = steps(options.words)
    if options.json or options.what == "steps":
        write_report({"what": options.what, **report}, options.json)


if __name__ == "__main__":
    main()
