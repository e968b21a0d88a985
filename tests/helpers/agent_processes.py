"""Processes of agents that are forks of a prepared one: they start in no time, and otherwise play as those of a rerun do."""

import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costgym.experiments.board.reruns import agent_process, process_agent
from tests.helpers.command_line import processes


class _Forked:
    """A fork with those attributes of `subprocess.Popen` that `ProcessAgent` uses."""

    def __init__(self, cwd: Path, env: dict[str, str]) -> None:
        context = processes()
        inbox, to_agent = context.Pipe(duplex=False)
        from_agent, outbox = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(inbox, outbox, str(cwd), env))
        self._process.start()
        self.pid, self.kill, self.wait = self._process.pid, self._process.kill, self._process.join
        self.stdin, self.stdout = os.fdopen(os.dup(to_agent.fileno()), "wb"), os.fdopen(os.dup(from_agent.fileno()), "rb")
        for end in (inbox, to_agent, from_agent, outbox):
            end.close()


def _serve(inbox: Connection, outbox: Connection, cwd: str, env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path.insert(0, cwd)
    os.dup2(inbox.fileno(), 0)
    os.dup2(outbox.fileno(), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.closerange(3, 256)  # pipes of `multiprocessing`, which a fresh process has not
    agent_process.main()
    os._exit(0)


def fork_agents(patch: pytest.MonkeyPatch) -> None:
    """Start agents' processes without a sandbox as forks; those in a sandbox stay as they are."""

    def start(command: list[str], *, cwd: Path, env: dict[str, str], **rest: Any) -> Any:
        if command[0] == sys.executable:
            return _Forked(cwd, env)
        return subprocess.Popen(command, cwd=cwd, env=env, **rest)

    patch.setattr(process_agent, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": start}))
