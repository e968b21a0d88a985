# ruff: noqa: PTH108, PTH115, PTH118, PTH123, PTH208
"""Attempts of the probes in `inside.py`: system calls, files, sockets, limits, and searches for data that a judge left.

An attempt that returns has succeeded; one that was refused raises OSError, MemoryError or RuntimeError (threads). Numbers of
system calls are those of x86-64.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOLD: dict[str, Any] = json.loads((HERE / "told.json").read_text()) if (HERE / "told.json").exists() else {}
MIB, GIB = 2**20, 2**30
libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: Any) -> int:
    """A system call by its number."""
    result = int(libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def child(number: int, *arguments: Any) -> None:
    """A system call that may return in another process, which ends at once."""
    me = os.getpid()
    call(number, *arguments)
    if os.getpid() != me:
        os._exit(0)


def fork() -> None:
    """Start a process that ends at once."""
    if os.fork() == 0:
        os._exit(0)


def expect(condition: object) -> None:
    """An attack that finds nothing was refused."""
    if not condition:
        raise OSError(errno.ENOENT, "found nothing")


def any_of(*attacks: Callable[[], object]) -> None:
    """Succeed with the first of several."""
    last: Exception = OSError(errno.ENOENT, "nothing to try")
    for attack in attacks:
        try:
            attack()
            return
        except (OSError, MemoryError, RuntimeError) as error:
            last = error
    raise last


def any_path(attack: Callable[[Path], object], *paths: str | Path) -> None:
    any_of(*(lambda path=path: attack(Path(path)) for path in paths))  # type: ignore[misc]


def fill(path: Path, size: int) -> None:
    """Write a file, and remove it."""
    try:
        with path.open("wb") as store:
            for _ in range(size // MIB):
                store.write(bytes(MIB))
    finally:
        path.unlink(missing_ok=True)


def hole(path: Path, size: int) -> None:
    try:
        with path.open("wb") as store:
            store.truncate(size)
    finally:
        path.unlink(missing_ok=True)


def read_byte(path: Path) -> object:
    with path.open("rb") as store:
        return store.read(1)


def write_again(path: Path) -> None:
    """Open a file for writing; nothing in it changes."""
    os.close(os.open(path, os.O_WRONLY))


def new_file(folder: Path) -> None:
    """Make a file and remove it."""
    handle, name = tempfile.mkstemp(dir=folder)
    os.close(handle)
    os.unlink(name)


def others() -> list[int]:
    """Processes beside this one, and the first of its namespace."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid(), os.getppid())]


def environments() -> None:
    """Look for the judge's keys in every environment."""
    secrets_seen = [json.dumps(dict(os.environ)).encode()]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                secrets_seen.append(Path(f"/proc/{name}/environ").read_bytes())
            except OSError:
                continue
    expect(any(str(TOLD["key"]).encode() in secret for secret in secrets_seen))


def handles() -> None:
    """Look for files, pipes and sockets that the judge had open."""
    handles_seen = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            handles_seen.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the listing itself
            continue
    expect(handles_seen & set(TOLD["handles"]))


def belongings(folder: str) -> None:
    """Look for anything in a folder that does not lead to what is mounted."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    expect([name for name in names if not any(f"{mount}/".startswith(f"{name}/") for mount in mounted)])


def writable_mounts() -> None:
    """Look for a mount that can be written to, beyond home, /tmp, the devices and what belongs to this process."""
    allowed = {"/tmp", str(Path.home()), "/dev/pts"}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, _, options, *_ = line.split()
        if "rw" in options.split(",") and mount_point not in allowed and not Path(mount_point).is_char_device():
            return
    raise OSError(errno.EROFS, "none")


def confined_twice() -> None:
    """Privileges that a setuid program would give."""
    if libc.prctl(39, 0, 0, 0, 0) == 1:  # PR_GET_NO_NEW_PRIVS
        raise OSError(errno.EPERM, "no new privileges")


def capabilities() -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")]
    expect(any(held))


def sockets(family: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> Callable[[], object]:
    return lambda: socket.socket(family, kind, protocol).close()


def connects(family: int, address: Any) -> Callable[[], object]:
    def attack() -> None:
        with socket.socket(family) as connection:
            connection.settimeout(5)
            connection.connect(address)

    return attack


def raises_limit(which: int) -> Callable[[], object]:
    def attack() -> None:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            set_limit(which, hard, hard + 1)

    return attack


def set_limit(which: int, soft: int, hard: int) -> None:
    try:
        resource.setrlimit(which, (soft, hard))
    except ValueError as error:  # "not allowed to raise maximum limit"
        raise OSError(errno.EPERM, str(error)) from error


def threads() -> None:
    """Start more threads than allowed; all end afterwards."""
    done = threading.Event()
    threading.stack_size(32 * 1024)
    started = []
    try:
        for _ in range(TOLD["threads"] + 50):
            started.append(threading.Thread(target=done.wait, daemon=True))
            started[-1].start()
    finally:
        done.set()
        threading.stack_size(0)


def map_zero() -> None:
    """Shared memory by the device of zeros: neither data nor a file."""
    with open("/dev/zero", "r+b", buffering=0) as device:
        mmap.mmap(device.fileno(), 16 * MIB).close()


def clock() -> None:
    now = (ctypes.c_long * 2)()
    libc.clock_gettime(0, now)
    call(227, 0, now)


def types_into_a_terminal() -> None:
    """Push a letter into the input of whoever started this."""
    any_of(*(lambda n=n: fcntl.ioctl(n, 0x5412, b"x") for n in range(3)), lambda: fcntl.ioctl(os.openpty()[1], 0x5412, b"x"))  # type: ignore[misc]


def own_memory_file() -> None:
    handle = os.memfd_create("x")
    os.close(handle)
