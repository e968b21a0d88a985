"""Attack `costgym serve` and `costgym proxy run` over sockets, as clients may that nobody knows: what each attack gains.

    python benchmarks/hostile/servers.py [--megabytes 400] [--connections 1100] [--python OTHER/bin/python] [--json FILE]

* **bodies**: so many megabytes, announced and in chunks, to every method of every path; memory before and at most.
* **silent**: so many connections of one address that say nothing, while another address asks for the server's health.
* **slow head**: a letter of a head a second; when the connection ends.
* **rebinding**: another site's name as `Host`, and as `Origin`.
* **garbage**: bytes that are no request for a tool, to the proxy; whether that starts the user's command.
* **bind**: every address of the machine, without a token or a name; whether the server starts.

With `--python` the servers are those of another installation of costgym. Needs Linux.
"""

import argparse
import itertools
import random
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.report import write_report

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATHS = {
    "serve": (
        "/",
        "/health",
        "/metadata",
        "/schema",
        "/reset",
        "/step",
        "/state",
        "/close",
        "/ws",
        "/mcp",
        "/mcp/x",
        "/nothing",
    ),
    "proxy": ("/", "/mcp", "/nothing"),
}
CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"
OTHER = "127.0.0.2"  # the address of an honest client
CRLF = "\r\n"
VERSION = f"MCP-Protocol-Version: 2026-07-28{CRLF}"
ACCEPT = f"Accept: application/json, text/event-stream{CRLF}Content-Type: application/json{CRLF}"
SLOWEST_S = 30.0


class Server(NamedTuple):
    """A server that runs: its kind, its address, its process and the file that the user's command would write."""

    kind: str
    port: int
    process: subprocess.Popen[bytes]
    started: Path

    def memory_mb(self, field: str = "VmRSS") -> int:
        """Resident memory of the process, or the most that it had (`VmHWM`)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) // 1024

    def connect(self, source: str = "127.0.0.1", wait_s: float = 10.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), wait_s, (source, 0))


@contextmanager
def server(kind: str, python: str, folder: Path) -> Iterator[Server]:
    """Start a server on a free port, and wait until it listens."""
    port, started = free_port(), folder / f"started by {kind}"
    words = [python, "-m", "costgym", "serve", "--port", str(port)]
    if kind == "proxy":
        command = ("sh", "-c", f"echo x >> {shlex.quote(str(started))}; exec sleep 60")
        words = [python, "-m", "costgym", "proxy", "run", "--port", str(port), "--", *command]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        running, give_up = Server(kind, port, process, started), time.monotonic() + 60
        while True:
            with suppress(OSError), running.connect(wait_s=1.0):
                break
            if process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"{shlex.join(words)} does not listen")
            time.sleep(0.1)
        yield running
    finally:
        process.terminate()
        process.wait()


def status_of(target: Server, head: str, parts: Iterable[bytes] = (), source: str = "127.0.0.1") -> str:
    """Send a request; returns the status of its answer, or how the connection ended."""
    try:
        with target.connect(source) as connection:
            try:
                connection.sendall(head.encode())
                for part in parts:
                    connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it had come; an answer may be there
            line = connection.recv(65536).split(b"\r\n", 1)[0]
            return line.split()[1].decode() if line.startswith(b"HTTP/") else "closed"
    except TimeoutError:
        return "no answer in 10 s"
    except OSError:
        return "closed"


def bodies(target: Server, megabytes: int, paths: Iterable[str] = ()) -> str:
    before, answers = target.memory_mb(), Counter[str]()
    for method in METHODS:
        for path in paths or PATHS[target.kind]:
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{VERSION}{ACCEPT}"
            for length in (f"Content-Length: {megabytes << 20}", "Transfer-Encoding: chunked"):
                whole = b"x" * 65536 if length.startswith("Content") else CHUNK
                parts = (whole for _ in range(megabytes * 16))
                answers[status_of(target, f"{head}{length}\r\n\r\n", parts)] += 1
    summary = ", ".join(f"{count} times {answer}" for answer, count in sorted(answers.items()))
    return f"memory {before} MB before, at most {target.memory_mb('VmHWM')} MB; {summary}"


def silent(target: Server, connections: int) -> str:
    with ExitStack() as opened:
        for _ in range(connections):
            with suppress(OSError):
                opened.enter_context(target.connect(wait_s=2.0))
        time.sleep(1.0)
        took, answered, path = [], 0, "/health" if target.kind == "serve" else "/nothing"
        for _ in range(10):
            begin = time.monotonic()
            status = status_of(target, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", source=OTHER)
            took.append(time.monotonic() - begin)
            answered += status in ("200", "404")
    return f"of 10 requests of another address {answered} answered, the slowest after {max(took):.2f} s"


def slow_head(target: Server) -> str:
    begin = time.monotonic()
    with target.connect() as connection, suppress(OSError):
        for letter in b"GET / HTTP/1.1\r\nX-Slow: " + b"x" * int(SLOWEST_S):
            connection.sendall(bytes([letter]))
            connection.settimeout(1.0)
            with suppress(TimeoutError):
                if not connection.recv(1):
                    break
            if time.monotonic() > begin + SLOWEST_S:
                return f"still open after {SLOWEST_S:g} s"
    return f"closed after {time.monotonic() - begin:.0f} s"


def rebinding(target: Server) -> str:
    path = "/health" if target.kind == "serve" else "/mcp"
    hosts = {"Host": "Host: evil.example", "Host and Origin": "Host: evil.example\r\nOrigin: http://evil.example"}
    hosts["Origin"] = f"Host: 127.0.0.1:{target.port}\r\nOrigin: http://evil.example"
    return ", ".join(
        f"{name} of another site: {status_of(target, f'GET {path} HTTP/1.1{CRLF}{head}{CRLF}Connection: close{CRLF}{CRLF}')}"
        for name, head in hosts.items()
    )


def garbage(target: Server) -> str:
    chance, answers = random.Random(0), Counter[str]()
    tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(200)
    posts = [b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}']
    bodies = (*posts, *(chance.randbytes(chance.randrange(1, 300)) for _ in range(20)))
    for body, version in itertools.product(bodies, (VERSION, "")):
        about = f"Host: 127.0.0.1{CRLF}{version}{ACCEPT}Content-Length: {len(body)}{CRLF}Connection: close"
        answers[status_of(target, f"POST /mcp HTTP/1.1{CRLF}{about}{CRLF}{CRLF}", [body])] += 1
    for raw in (tls, b"\0" * 100, b"GET\r\n\r\n", *(chance.randbytes(100) for _ in range(20))):
        answers[status_of(target, "", [raw + b"\r\n\r\n"])] += 1
    time.sleep(2.0)
    starts = target.started.read_text().count("x") if target.started.exists() else 0
    summary = ", ".join(f"{count} times {answer}" for answer, count in sorted(answers.items()))
    return f"the user's command was started {starts} times; {summary}" if target.kind == "proxy" else summary


def bind(kind: str, python: str, folder: Path) -> str:
    port = free_port()
    options = ["--host", "0.0.0.0", "--port", str(port)]
    words = ["serve", *options] if kind == "serve" else ["proxy", "run", *options, "--", "cat"]
    process = subprocess.Popen([python, "-m", "costgym", *words], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        _, error = process.communicate(timeout=15)
        return f"refused: {error.decode().strip().splitlines()[-1][:160]}" if process.returncode else "ended"
    except subprocess.TimeoutExpired:
        return f"serves the network; {rebinding(Server(kind, port, process, folder))}"
    finally:
        process.kill()
        process.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--connections", type=int, default=1100)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the installation that is attacked")
    parser.add_argument("--attacks", type=lambda text: text.split(","), help="some of the attacks, with commas between them")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in PATHS:
            attacks: dict[str, Any] = {
                "rebinding": rebinding,
                "garbage": garbage,
                "slow head": slow_head,
                "silent": lambda target: silent(target, options.connections),
                "bodies": lambda target: bodies(target, options.megabytes),
            }
            chosen = options.attacks or [*attacks, "bind"]
            for name, attack in attacks.items():
                if name not in chosen:
                    continue
                with server(kind, options.python, Path(folder)) as target:
                    table.setdefault(kind, {})[name] = attack(target)
                print(f"{kind}, {name}: {table[kind][name]}", flush=True)
            if "bind" in chosen:
                table.setdefault(kind, {})["bind"] = bind(kind, options.python, Path(folder))
                print(f"{kind}, bind: {table[kind]['bind']}", flush=True)
    write_report({"python": options.python, "servers": table}, options.json)


if __name__ == "__main__":
    main()
