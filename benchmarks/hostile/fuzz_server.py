"""Send right, nearly right and wrong messages to the service, while honest clients play on it.

    python benchmarks/hostile/fuzz_server.py --messages 200000 --json benchmarks/results/fuzz_server.json

Messages go over HTTP, WebSocket, OpenEnv and MCP, to the application itself, without a network. No answer may be a failure of
the server or tell what an agent must not know, and no session may be left open; `tests/helpers/attack.py` holds the grammar.
The time that honest answers take is measured beside the attack, and alone before it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from tests.helpers.attack import attack, make_service, play_honestly

HONEST = 4
PIECE = 10_000  # messages to one service


async def alone(seconds: float) -> list[float]:
    """How long honest answers take where nobody attacks."""
    took = list[float]()
    service = make_service()
    async with service._life(None):  # type: ignore[arg-type]
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await asyncio.gather(*(play_honestly(service, took, stop) for _ in range(HONEST)))
    return took


def quantiles(took_s: list[float]) -> dict[str, float]:
    return {f"p{part}_ms": round(1e3 * float(np.percentile(took_s, part)), 3) for part in (50, 99)} | {"answers": len(took_s)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    calm = quantiles(asyncio.run(alone(5.0)))
    begin, faults, took, sent = time.perf_counter(), list[str](), list[float](), 0
    number = 0
    while sent < options.messages:
        most = min(PIECE, options.messages - sent)
        met, wrong = asyncio.run(attack(make_service(), most, options.seed + number, HONEST, took))
        sent, faults, number = sent + met.total(), faults + wrong, number + 1
        print(f"{sent} messages, {len(faults)} faults, {time.perf_counter() - begin:.0f} s", *wrong[:5], sep="\n", flush=True)
    report = {
        "messages": sent,
        "faults": faults[:20],
        "honest_alone": calm,
        "honest_beside": quantiles(took),
        "seconds": round(time.perf_counter() - begin, 1),
        "seed": options.seed,
    }
    write_report(report, options.json)


if __name__ == "__main__":
    main()
