"""From a log of conversations to a world and a board, from nothing: the commands, their seconds, and what was replaced.

python benchmarks/trace_to_board.py [--traces LOG] [--out FOLDER] [--sessions 60]

Without `--traces` the log is that of a shop's assistant, written here: customers with names, mails, telephones and addresses
ask for orders, refunds and changes. Then it is known which details are personal, and those that remain are listed.
"""

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from tests.helpers.browser import chromium, visit, window

FIRST, LAST = ("Anna", "Jonas", "Priya", "Mateo", "Ngozi", "Wei"), ("Schmidt", "Okafor", "Patel", "Rossi", "Zhang", "Novak")
STREETS, CITIES = ("Maple Grove Street", "Hauptstraße", "King's Road", "Rua das Flores"), ("Porto", "Leeds", "Bergen", "Turin")


def call(name: str, arguments: dict[str, Any], result: Any) -> list[dict[str, Any]]:
    called = {"id": name, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    answer = {"role": "tool", "tool_call_id": name, "content": json.dumps(result)}
    return [{"role": "assistant", "content": None, "tool_calls": [called]}, answer]


def session(number: int, random: Random) -> tuple[dict[str, Any], list[str]]:
    """A conversation, and the personal details in it."""
    first, last = random.choice(FIRST), random.choice(LAST)
    name, mail = f"{first} {last}", f"{first}.{last}{number}@mail.example".lower()
    phone, home = f"+49 30 {random.randrange(10**6, 10**7)}", f"{random.randrange(1, 99)} {random.choice(STREETS)}"
    customer, order, refund = (
        f"C-{random.randrange(10_000, 99_999)}",
        f"O-{random.randrange(10**6)}",
        f"RF-{random.randrange(10**5)}",
    )
    city, total = random.choice(CITIES), round(random.uniform(9, 400), 2)
    customer = call("find_customer", {"email": mail}, {"id": customer, "name": name, "phone": phone, "address": home})
    last_order = call("last_order", {"customer_id": customer}, {"id": order, "city": city, "total": total})
    intents = (
        (f"Where is the last order of {mail}?", [*customer, *last_order], f"It is in {city}."),
        (f"{name} ({mail}) wants her last order refunded.",
         [*customer, *last_order, *call("create_refund", {"order_id": order}, {"refund": refund})],
         f"Refund {refund} is on its way."),
        (f"What did {mail} pay for the last order? Call back on {phone}.", [*customer, *last_order], f"The total was {total}."),
        (f"Please cancel order {order}. I live at {home}.", call("cancel_order", {"order_id": order}, {"status": "cancelled"}),
         "Done, it is cancelled."),
    )  # fmt: skip
    query, messages, answer = random.choice(intents)
    listed = [{"role": "user", "content": query}, *messages, {"role": "assistant", "content": answer}]
    text = json.dumps(listed, ensure_ascii=False)
    return {"session_id": f"s{number}", "messages": listed}, [d for d in (name, mail, phone, home) if d in text]


def pictures(out: Path, pages: dict[str, Path]) -> None:
    """Take pictures of whole pages as wide and narrow windows show them, in light and in dark mode."""
    with chromium(out / "profile") as driver:
        for name, page in pages.items():
            for width, dark in product((1400, 390), (False, True)):
                window(driver, width, 900, dark)
                visit(driver, page.resolve())
                window(driver, width, driver.execute_script("return document.documentElement.scrollHeight"), dark)
                driver.save_screenshot(str(out / f"{name}-{width}-{'dark' if dark else 'light'}.png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--out", type=Path, default=Path("trace-to-board"))
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    log, details = options.traces, list[str]()
    if log is None:
        log = options.out / "traces.jsonl"
        drawn = [session(number, Random(number)) for number in range(options.sessions)]
        log.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record, _ in drawn), encoding="utf-8")
        details = sorted({detail for _, personal in drawn for detail in personal})
    world, page, board = (str(options.out / name) for name in ("world.yaml", "world.html", "board"))
    played = ("--agents", "oracle,greedy,react", "--budgets", "price=20", "--episodes", "40", "--quiet")
    commands = (
        ("forge", "--traces", str(log), "--out", world, "--page", page),
        ("leaderboard", "--scenario", world, *played, "--out", board),
        ("verify", board),
    )
    steps = []
    for words in commands:
        begin, before = time.monotonic(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        done = subprocess.run([sys.executable, "-m", "costgym", *words], capture_output=True, text=True)
        steps.append(
            {
                "command": f"costgym {' '.join(words)}",
                "seconds": round(time.monotonic() - begin, 1),
                "processor_seconds": round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before, 1),
                "status": done.returncode,
            }
        )
        print(
            f"$ {steps[-1]['command']}   # {steps[-1]['seconds']} s, status {done.returncode}\n{done.stdout}{done.stderr}",
            flush=True,
        )
    written = Path(world).read_text(encoding="utf-8")
    left = [detail for detail in details if detail in written]
    rows = json.loads((Path(board) / "leaderboard.json").read_text())["rows"]
    report = {
        "steps": steps, "personal_details": len(details), "left": left,
        "replaced": re.findall(r"replaced: ([^;]*)", " ".join(written.split()))[:1],
        "queries": re.findall(r"^\s*- query: (.*)$", written, re.MULTILINE)[:5],
        "rows": [{key: row[key] for key in ("agent", "track", "pass_rate_under_budget", "average_cost")} for row in rows],
    }  # fmt: skip
    if shutil.which("chromium") and shutil.which("chromedriver"):
        pictures(options.out, {"world": Path(page), "board": Path(board) / "index.html"})
    write_report(report, options.json)


if __name__ == "__main__":
    main()
