"""The proxy before published MCP servers: its overhead, its faults, and what is lost when something dies.

    python benchmarks/real_tools/proxy.py NAME TOOL ARGUMENTS [--calls N] [--parts NAMES] [--json FILE] -- COMMAND...

for example `... proxy.py mcp-server-time get_current_time '{"timezone": "UTC"}' -- mcp-server-time`. Four parts:

* overhead: calls by turns to the server itself and through the proxy, which imposes nothing and keeps a log;
* faults: runs of 250 calls over HTTP under `storm`, all of them twice, beside 1,000 simulated episodes of the same world;
* a server that is killed (SIGKILL) while eight calls are always in flight;
* a proxy that is killed likewise: every reply that the client got stands in the log.

The parts may be measured one after another (`--parts overhead`); results of all go to one file, by the servers' names.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from costgym.experiments.serve.proxy.call_log import read_runs
from costgym.experiments.serve.proxy.session import Real, Session, Settings
from costgym.experiments.serve.proxy.world import tool_of, world_around
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import load_scenario
from costgym.simulators.status import Status

PROXY = (sys.executable, "-m", "costgym", "proxy")
SCENARIO, CALLS_A_RUN, SIMULATED = "storm", 250, 1000
NO_LIMIT = "calls=1000000000"


def server(command: Sequence[str]) -> Any:
    return stdio_client(StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ)))


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    low, median, high = (1000 * float(value) for value in np.percentile(seconds, (1, 50, 99)))
    return {"p1_ms": round(low, 3), "p50_ms": round(median, 3), "p99_ms": round(high, 3)}


async def overhead(command: Sequence[str], tool: str, arguments: dict[str, Any], calls: int, folder: Path) -> dict[str, Any]:
    log = folder / "overhead.jsonl"
    times: dict[str, list[float]] = {"direct": [], "proxied": []}
    async with (
        server(command) as direct,
        ClientSession(*direct) as one,
        server([*PROXY, "--log", str(log), "--", *command]) as proxied,
        ClientSession(*proxied) as other,
    ):
        clients = {"direct": one, "proxied": other}
        for client in clients.values():
            await client.initialize()
            await client.list_tools()
        for number in range(calls + 50):
            for name in ("direct", "proxied") if number % 2 else ("proxied", "direct"):
                begun = time.perf_counter()
                result = await clients[name].call_tool(tool, arguments)
                if number >= 50:  # both are warm
                    times[name].append(time.perf_counter() - begun)
                assert not result.is_error, result
    added = np.array(times["proxied"]) - np.array(times["direct"])
    (run,) = read_runs([log])
    return {
        "calls": calls,
        **{name: quantiles(seconds) for name, seconds in times.items()},
        "overhead": {**quantiles(added.tolist()), "mean_ms": round(1000 * float(added.mean()), 3)},
        "logged": len(run.calls),
    }


async def faults(command: Sequence[str], tool: str, arguments: dict[str, Any], calls: int, folder: Path) -> dict[str, Any]:
    passes = []
    for name in ("first", "second"):
        log = folder / f"{name}.jsonl"
        options = ["--port", "0", "--scenario", SCENARIO, "--budget", NO_LIMIT, "--time-scale", "0", "--log", str(log)]
        process = subprocess.Popen([*PROXY, *options, "--", *command], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        address = next(line.split()[-1] for line in process.stderr if line.startswith("proxy at "))
        for seed in range(calls // CALLS_A_RUN):
            async with (
                streamable_http_client(f"{address}?seed={seed}&run={seed}") as streams,
                ClientSession(streams[0], streams[1]) as client,
            ):
                await client.initialize()
                for _ in range(CALLS_A_RUN):
                    await client.call_tool(tool, arguments)
        process.terminate()
        process.wait(30)
        passes.append(read_runs([log]))
    first, second = (
        [
            [
                {key: call[key] for key in ("tool", "k", "imposed", "status", "price", "started", "latency_s")}
                for call in run.calls
            ]
            for run in runs
        ]
        for runs in passes
    )
    tools = sorted(passes[0][0].settings["prices"])
    simulated = simulate(tools, tool)
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(simulated), size=(4000, len(first)))  # as many runs at a time as were measured
    shares = {}
    for status in sorted({name for run in simulated for name in run} | {c["imposed"] for run in first for c in run}):
        met = float(np.mean([sum(call["imposed"] == status for call in run) / CALLS_A_RUN for run in first]))
        worlds = np.array([run.get(status, 0) / CALLS_A_RUN for run in simulated])
        low, high = np.percentile(worlds[drawn].mean(axis=1), (2.5, 97.5))
        shares[status] = {
            "proxy": round(met, 5),
            "world": round(float(worlds.mean()), 5),
            "interval": [round(float(low), 5), round(float(high), 5)],
            "within": bool(low - 1e-12 <= met <= high + 1e-12),
        }
    return {
        "scenario": SCENARIO,
        "runs": len(first),
        "calls": sum(map(len, first)),
        "same_faults_twice": first == second,
        "own_failures_of_the_server": sum(c["imposed"] == "ok" and c["status"] != "ok" for run in first for c in run),
        "shares": shares,
        "within": f"{sum(row['within'] for row in shares.values())} of {len(shares)}",
    }


def simulate(tools: Sequence[str], tool: str) -> list[Counter[str]]:
    """Counts of imposed statuses in runs of the same world under other seeds, without a proxy or a server."""
    world = world_around([tool_of(name) for name in tools], load_scenario(SCENARIO))
    results = []
    for seed in range(10_000, 10_000 + SIMULATED):
        session = Session(world, Settings(seed=seed, clock="calls", time_scale=0.0))
        counts: Counter[str] = Counter()
        for _ in range(CALLS_A_RUN):
            ticket = session.begin(tool, {})
            session.end(ticket, Real("{}", Status.OK, 0.0) if ticket.reaches else None)
            counts[ticket.call.status.label if ticket.call is not None else "none"] += 1
        results.append(counts)
    return results


async def killed(
    command: Sequence[str], tool: str, arguments: dict[str, Any], calls: int, folder: Path, whom: str
) -> dict[str, Any]:
    """Kill the server or the proxy half-way; eight calls are always in flight."""
    log, answers, requests = folder / f"killed-{whom}.jsonl", Counter[str](), 0
    replied = 0
    parameters = [*PROXY, "--log", str(log), "--run", "killed", "--", *command]
    async with server(parameters) as streams, ClientSession(*streams) as client:
        await client.initialize()
        await client.call_tool(tool, arguments)
        replied += 1

        async def worker() -> None:
            nonlocal requests, replied
            while requests < calls:
                requests += 1
                if requests == calls // 2:
                    os.kill(process_of(whom, log, command), signal.SIGKILL)
                try:
                    result = await client.call_tool(tool, arguments, read_timeout_seconds=20)
                    replied += 1
                    text = "" if not result.content else getattr(result.content[0], "text", "")
                    answers["ok" if not result.is_error else json.loads(text)["message"]] += 1
                except MCPError as error:
                    answers[str(error)] += 1

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(worker)
    (run,) = read_runs([log])
    return {
        "calls": requests + 1,
        "answers": dict(answers.most_common(5)),
        "replies": replied,
        "logged": len(run.calls),
        "logged_statuses": dict(Counter(call["status"] for call in run.calls)),
        "replies_that_are_not_logged": max(0, replied - len(run.calls)),
        "end": run.reason,
    }


def process_of(whom: str, log: Path, command: Sequence[str]) -> int:
    """The process of the proxy that writes to a log, or of its server."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if str(log) in words:
                if whom == "proxy":
                    return int(entry.name)
                (child, *_) = (entry / "task" / entry.name / "children").read_text().split()
                return int(child)
    raise RuntimeError(f"no process has {log} among its arguments")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("tool")
    parser.add_argument("arguments", type=json.loads)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--parts", default="overhead,faults,killed")
    parser.add_argument("--json", type=Path)
    split = sys.argv.index("--")
    options, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    ask, parts = (command, options.tool, options.arguments), options.parts.split(",")
    report: dict[str, Any] = {"tool": options.tool, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        if "overhead" in parts:
            report["overhead"] = {"load_average": os.getloadavg()[0], **anyio.run(overhead, *ask, options.calls, folder)}
        if "faults" in parts:
            report["faults"] = anyio.run(faults, *ask, options.calls, folder)
        if "killed" in parts:
            for whom in ("server", "proxy"):
                report[f"{whom}_killed"] = anyio.run(killed, *ask, 2000, folder, whom)
    print(json.dumps({options.name: report}, indent=1))
    if options.json is not None:
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        known[options.name] = {**known.get(options.name, {}), **report}
        write_atomically(options.json, json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
