"""A PostgreSQL server of one's own, thrown away afterwards."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _programs() -> Path | None:
    initdb = shutil.which("initdb")
    if initdb is not None:
        return Path(initdb).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database on a server that listens on a socket file alone. Skips where PostgreSQL is not installed."""
    programs = _programs()
    if programs is None or not (programs / "pg_ctl").is_file():
        pytest.skip("no PostgreSQL here: install the package postgresql")
    pytest.importorskip("psycopg", reason="no psycopg here: install costgym[store]")
    who: dict[str, str] = {}
    folder = Path(tempfile.mkdtemp(prefix="costgym-pg-"))
    if os.geteuid() == 0:  # the server refuses to run as root
        who = {"user": "nobody"}
        shutil.chown(folder, "nobody")
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False, **who)  # type: ignore[call-overload]
        if done.returncode:
            pytest.skip(f"PostgreSQL does not start here: {(done.stderr or done.stdout).strip().splitlines()[-1]}")

    try:
        run("initdb", "-D", str(data), "-U", "tester", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c full_page_writes=off"
        log = str(folder / "log")
        run("pg_ctl", "-D", str(data), "-w", "-t", "30", "-o", options, "-l", log, "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
