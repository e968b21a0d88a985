"""Play against a model server with one quirk after another: what passes, what is said, and what `costgym doctor` advises.

    python benchmarks/hostile/quirks.py STUB.py SCENARIO.yaml [--quirks a,b] [--episodes 4] [--json FILE]

The stub is any OpenAI-compatible server that is started as `python STUB.py QUIRK PORT`; its quirks are the names that its
text compares `Q` with. A *silent zero* is a quirk under which nothing passes, the command ends with 0 and nothing is said.
`doctor` is judged by what it is for: with the model file that it writes, as many episodes pass as the quirk lets pass, or it
says why not.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

LIMIT_S = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(words: list[str], port: int) -> tuple[int, str]:
    """The exit status of a command of costgym, and what it said."""
    variables = {**os.environ, "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "none"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "costgym", *words], capture_output=True, text=True, env=variables, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return 124, "did not end"
    output = "\n".join(
        line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("note", "warning", "error", "problem"))
    )
    return done.returncode, output


def played(model: str, scenario: Path, episodes: int, port: int, folder: Path) -> dict[str, Any]:
    """What `costgym run` makes of the server."""
    out = folder / "run.json"
    out.unlink(missing_ok=True)
    words = ["run", "react", "--scenario", str(scenario), "--model", model, "--episodes", str(episodes), "--json", str(out)]
    status, output = command(words, port)
    row = json.loads(out.read_text()) if out.exists() else {}
    row = row.get("rows", [row])[0] if isinstance(row, dict) else row[0]
    return {
        "passes": round(float(row.get("pass_rate_under_budget") or 0.0) * episodes),
        "status": status,
        "said": output[-400:],
    }


def one(stub: Path, scenario: Path, quirk: str, episodes: int) -> dict[str, Any]:
    """What a quirk leads to, as it is and with the model file that `doctor` writes."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, str(stub), quirk, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            row = {"quirk": quirk, **played("openai:m", scenario, episodes, port, folder)}
            file = folder / "model.yaml"
            status, output = command(
                ["doctor", "--model", "openai:m", "--out", str(file), "--json", str(folder / "d.json")], port
            )
            diagnosis = json.loads((folder / "d.json").read_text()) if (folder / "d.json").exists() else {}
            row["doctor"] = {
                "status": status,
                "said": output[-300:],
                "requests": diagnosis.get("requests"),
                "settings": diagnosis.get("settings"),
            }
            if file.exists():
                named = re.search(r"^\s*-?\s*name:\s*(\S+)", file.read_text(), re.MULTILINE)
                row["advised"] = played(f"{file}:{named[1] if named else 'm'}", scenario, episodes, port, folder)
        return row
    finally:
        server.kill()
        server.wait()


def rightly_advised(row: dict[str, Any]) -> bool:
    """Whether the advice loses nothing, and brings successes or says why there are none."""
    advised = row.get("advised", {}).get("passes", 0)
    return bool(advised >= row["passes"] if advised else row["doctor"]["said"] and not row["passes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stub", type=Path)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--quirks")
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    known = dict.fromkeys(re.findall(r'Q\s*==\s*"(\w+)"', options.stub.read_text()))
    rows = []
    for quirk in options.quirks.split(",") if options.quirks else ["none", *known]:
        row = one(options.stub, options.scenario, quirk, options.episodes)
        rows.append(row)
        last = row["said"].splitlines()[-1][:110] if row["said"] else ""
        advised = row.get("advised", {}).get("passes", "-")
        print(f"{quirk:22} {row['passes']}/{options.episodes} rc {row['status']}; doctor rc {row['doctor']['status']}, "
              f"{row['doctor']['requests']} requests, then {advised}; {last}", flush=True)  # fmt: skip
    silent = [row["quirk"] for row in rows if not row["passes"] and not row["status"] and not row["said"]]
    helped = [row["quirk"] for row in rows if row.get("advised", {}).get("passes", 0) > row["passes"]]
    right = [row["quirk"] for row in rows if rightly_advised(row)]
    report = {
        "quirks": len(rows), "rightly_advised": len(right),
        "wrongly_advised": sorted({row["quirk"] for row in rows} - set(right)),
        "passing": sum(row["passes"] > 0 for row in rows), "silent_zeros": silent,
        "passing_with_the_advice": sum(max(row["passes"], row.get("advised", {}).get("passes", 0)) > 0 for row in rows),
        "helped_by_doctor": helped, "most_requests_of_doctor": max((row["doctor"]["requests"] or 0) for row in rows),
        "rows": rows,
    }  # fmt: skip
    print({key: value for key, value in report.items() if key != "rows"})
    if options.json:
        write_report(report, options.json)


if __name__ == "__main__":
    main()
