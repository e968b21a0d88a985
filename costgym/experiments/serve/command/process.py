"""The process of a command in one episode: how it is started, watched and ended."""

import atexit
import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from costgym.simulators.errors import ConfigError, check_known

ISOLATIONS = ("auto", "bubblewrap", "none")
BUBBLEWRAP, NONE = "bubblewrap", "none"
TAIL_BYTES = 65_536  # of each of the command's outputs, which are kept
_LAUNCH = str(Path(__file__).with_name("launch.py"))
_SECRET = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)|_proxy$", re.IGNORECASE)
"""Variables that a command does not inherit: keys, which it could spend or publish, and proxies, which lead elsewhere."""
_LIVE: "set[CommandProcess]" = set()


def choose_isolation(isolation: str) -> str:
    """Return `bubblewrap` or `none`; `auto` takes bubblewrap where this machine can run it. Raises ConfigError if bubblewrap is
    asked for, and cannot be run here."""
    check_known("isolation", isolation, ISOLATIONS)
    if isolation == NONE:
        return NONE
    problem = why_not_isolated()
    if problem and isolation == BUBBLEWRAP:
        raise ConfigError("--isolation", f"bubblewrap cannot be used here: {problem}")
    return NONE if problem else BUBBLEWRAP


@lru_cache(maxsize=1)
def why_not_isolated() -> str:
    """Return why this machine cannot isolate a command; "" where it can."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed (Debian: apt-get install bubblewrap)"
    with tempfile.TemporaryDirectory() as home:
        tried = subprocess.run([*_walls(Path(home)), "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["bubblewrap fails"])[-1]


def _walls(home: Path) -> list[str]:
    """The words of bubblewrap: no network but its own, no other process, and no file that can be written but in `home`."""
    return [
        *("bwrap", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", "--bind", str(home), str(home)),
        *("--chdir", str(Path.cwd()), "--"),
    ]  # fmt: skip


class CommandProcess:
    """A command that runs; `ended` is called with its exit status from another thread, once it has ended by itself."""

    def __init__(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        isolation: str,
        socket_path: str,
        port: int,
        ended: Callable[[int], None],
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="costgym-command-")
        home = Path(self._folder.name)
        inherited = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
        homes = {"HOME": str(home), "TMPDIR": str(home)} if isolation == BUBBLEWRAP else {}
        inside = [sys.executable, "-I", "-S", _LAUNCH]
        if isolation == BUBBLEWRAP:
            words = [*_walls(home), *inside, socket_path, str(port), *command]
        else:
            words = [*inside, "-", "0", *command]
        self._ended, self._killed = ended, False
        self._tails = {"out": b"", "err": b""}
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**inherited, **homes, **variables},
            start_new_session=True,
        )
        _LIVE.add(self)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def last_line(self) -> str:
        """The last line of the standard output that is not empty."""
        lines = self._tails["out"].decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    @property
    def last_error(self) -> str:
        """The last line of the standard error."""
        lines = self._tails["err"].decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def wait(self, seconds: float) -> None:
        """Return when the command has ended, or after some seconds."""
        self._watcher.join(seconds)

    def close(self) -> None:
        """End the command with all its children."""
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._watcher.join(1.0)
        _LIVE.discard(self)
        with contextlib.suppress(OSError):
            self._folder.cleanup()

    def _watch(self) -> None:
        """Read both outputs, of which the ends are kept, until the command has ended."""
        with selectors.DefaultSelector() as selector:
            for name, pipe in (("out", self._process.stdout), ("err", self._process.stderr)):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, name)
            drained_at = None
            while selector.get_map():
                # a child that outlives the command may hold its outputs open
                if self._process.poll() is not None:
                    drained_at = drained_at or time.monotonic() + 0.2
                    if time.monotonic() > drained_at:
                        break
                for key, _ in selector.select(0.1):
                    chunk = os.read(key.fd, TAIL_BYTES)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    self._tails[key.data] = (self._tails[key.data] + chunk)[-TAIL_BYTES:]
        status = self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if not self._killed:
            self._ended(status)


@atexit.register
def _end_all() -> None:
    for process in list(_LIVE):
        process.close()
