"""Send right, nearly right and wrong messages to the service, while honest clients play on it.

    python benchmarks/hostile/fuzz_server.py --messages 200000 --json benchmarks/results/fuzz_server.json

Messages go over HTTP, WebSocket, OpenEnv and MCP, from several clients at once, to one application, without a network. No
answer may be a failure of the server or tell what an agent must not know, and no session may be left open;
`tests/helpers/attack.py` holds the grammar. The time that honest answers take is measured beside the attack, and alone before
it. Memory is that of the process, with the attackers in it: every 10,000 messages, and while sessions are opened, used once
and left.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from tests.helpers.attack import Attack, make_service, open_and_close, play_honestly

ATTACKERS, HONEST = 8, 4
THINK_S = 0.02  # of an honest client before a message
PIECE = 10_000  # messages between two looks at the memory
LOOKS = (100, 1_000, 2_500, 5_000, 7_500, 10_000)  # sessions


def quantiles(took_s: list[float]) -> dict[str, float]:
    return {f"p{part}_ms": round(1e3 * float(np.percentile(took_s, part)), 3) for part in (50, 99)} | {"answers": len(took_s)}


def memory_mb() -> float:
    """Resident memory of this process, MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * 4096 / 1e6, 1)


async def alone(seconds: float) -> dict[str, float]:
    """How long honest answers take where nobody attacks."""
    took_s, service, stop = list[float](), make_service(), asyncio.Event()
    async with service._life(None):  # type: ignore[arg-type]
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await asyncio.gather(*(play_honestly(service, took_s, stop, THINK_S) for _ in range(HONEST)))
    return quantiles(took_s)


async def sessions(count: int) -> dict[str, float]:
    """Memory after so many sessions were opened, used and left."""
    service, seconds = make_service(), dict[str, float]()
    async with service._life(None):  # type: ignore[arg-type]
        for number in range(count):
            await open_and_close(service, number)
            if number + 1 in LOOKS:
                seconds[f"{number + 1}"] = memory_mb()
                print(f"{number + 1} sessions: {seconds[f'{number + 1}']} MB, {len(service.sessions)} open", flush=True)
        if len(service.sessions):
            raise SystemExit(f"{len(service.sessions)} sessions are still open")
    return seconds


async def besiege(messages: int, seed: int) -> dict[str, Any]:
    """Attack one service, with honest clients beside."""
    service, stop, took_s, memory = make_service(), asyncio.Event(), list[float](), dict[str, float]()
    begin = time.perf_counter()
    async with service._life(None):  # type: ignore[arg-type]
        attacking = Attack(service, seed)
        beside = [asyncio.create_task(play_honestly(service, took_s, stop, THINK_S)) for _ in range(HONEST)]
        while (sent := attacking.met.total()) < messages:
            await attacking.run(min(PIECE, messages - sent), ATTACKERS)
            sent = attacking.met.total()
            memory[f"{sent}"] = memory_mb()
            seconds = time.perf_counter() - begin
            print(f"{sent} messages, {len(attacking.wrong)} faults, {seconds:.0f} s, {memory[f'{sent}']} MB", flush=True)
            print(*attacking.wrong[:5], sep="\n", end="", flush=True)
        stop.set()
        for failed in await asyncio.gather(*beside, return_exceptions=True):
            if failed is not None:
                attacking.wrong.append(f"an honest client failed: {failed!r}")
    if len(service.sessions):
        attacking.wrong.append(f"{len(service.sessions)} sessions outlive the service")
    return {
        "messages": sent,
        "answers": dict(sorted(Counter(attacking.met).items())),
        "faults": attacking.wrong[:20],
        "honest_beside": quantiles(took_s),
        "memory_mb_after_messages": memory,
        "seconds": round(time.perf_counter() - begin, 1),
        "processor_seconds": round(time.process_time(), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"seed": options.seed, "attackers": ATTACKERS, "honest": HONEST, "think_s": THINK_S}
    report["honest_alone"] = asyncio.run(alone(5.0))
    report["memory_mb_after_sessions"] = asyncio.run(sessions(options.sessions))
    report |= asyncio.run(besiege(options.messages, options.seed))
    write_report(report, options.json)
    raise SystemExit(1 if report["faults"] else 0)


if __name__ == "__main__":
    main()
