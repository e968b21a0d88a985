# ruff: noqa: PTH101, PTH104, PTH108, PTH115, PTH118, PTH123, PTH208
"""Attacks on the sandbox from inside: the file of an agent, which tries each and says what came of it.

A probe that returns has succeeded; one that raises OSError, MemoryError or RuntimeError (threads) was refused. Anything else is
an error of the probe. Numbers of system calls are those of x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents import Agent

HERE = Path(__file__).parent
TOLD: dict[str, Any] = json.loads((HERE / "told.json").read_text()) if (HERE / "told.json").exists() else {}
MIB, GIB = 2**20, 2**30
libc = ctypes.CDLL(None, use_errno=True)


class Probe(NamedTuple):
    """An attack.

    Attributes:
        kind: files, network, processes, kernel or limits.
        stop: what refuses it.
        attack: raises where it is refused.
        harmless: it may be played without a sandbox too, to show that it would succeed there.
    """

    kind: str
    stop: str
    attack: Callable[[], object]
    harmless: bool = True


PROBES: dict[str, Probe] = {}
ABSENT, READ_ONLY, FILTER = "it is not mounted there", "everything but home and /tmp is read-only", "the filter of system calls"
NAMESPACE, CAPABILITIES, LIMIT = "namespaces of its own", "it has no capability", "a limit of resources"


def probe(name: str, kind: str, stop: str, attack: Callable[[], object], harmless: bool = True) -> None:
    """Enter an attack into the list."""
    assert name not in PROBES
    PROBES[name] = Probe(kind, stop, attack, harmless)


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
    found = [json.dumps(dict(os.environ)).encode()]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(Path(f"/proc/{name}/environ").read_bytes())
            except OSError:
                continue
    expect(any(str(TOLD["key"]).encode() in each for each in found))


def handles() -> None:
    """Look for files, pipes and sockets that the judge had open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the listing itself
            continue
    expect(found & set(TOLD["handles"]))


def belongings(folder: str) -> None:
    """Look for anything in a folder that does not lead to what is mounted."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    expect([name for name in names if not any(f"{place}/".startswith(f"{name}/") for place in mounted)])


def writable_mounts() -> None:
    """Look for a mount that can be written to, beyond home, /tmp, the devices and what belongs to this process."""
    allowed = {"/tmp", str(Path.home()), "/dev/pts"}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, _, options, *_ = line.split()
        if "rw" in options.split(",") and place not in allowed and not Path(place).is_char_device():
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
        with socket.socket(family) as each:
            each.settimeout(5)
            each.connect(address)

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


SECRET, PACKAGE = Path(TOLD.get("secret", "/none")), Path(TOLD.get("package", "/none"))
JUDGE = int(TOLD.get("judge", 0))
HOME = Path.home()

# -- files ---------------------------------------------------------------------------------------------------------------------

probe("reads the secret of its judge", "files", ABSENT, lambda: SECRET.read_text())
probe("lists the folder of the secret", "files", ABSENT, lambda: expect("secret" in os.listdir(SECRET.parent)))
probe("makes a hard link to the secret", "files", FILTER, lambda: os.link(SECRET, HERE.parent / "link"))
probe(
    "reads the secret through a symbolic link",
    "files",
    ABSENT,
    lambda: ((HOME / "to").symlink_to(SECRET), (HOME / "to").read_text()),
)
probe("reads the secret below /proc/1/root", "files", ABSENT, lambda: Path(f"/proc/1/root{SECRET}").read_text())
probe(
    "opens a file by its handle",
    "files",
    FILTER,
    lambda: call(303, -100, b"/", ctypes.create_string_buffer(b"\x80" + bytes(140)), ctypes.byref(ctypes.c_int()), 0),
)
probe("reads another entry's files", "files", ABSENT, lambda: (HERE.parent / "other/own.py").read_text())
probe("reads the keys of the judge's user", "files", ABSENT, lambda: (Path(TOLD["home"]) / ".ssh/id").read_text())
probe("reads /etc/passwd or /etc/shadow", "files", ABSENT, lambda: any_path(read_byte, "/etc/passwd", "/etc/shadow"))
probe(
    "lists /home, /root, /var, /run, /srv or /sys",
    "files",
    ABSENT,
    lambda: any_of(
        *(lambda folder=folder: belongings(folder) for folder in ("/home", "/root", "/var", "/run", "/srv", "/sys"))  # type: ignore[misc]
    ),
)
probe(
    "reads the tests or the repository",
    "files",
    ABSENT,
    lambda: any_path(os.listdir, PACKAGE.parent / "tests", PACKAGE.parent / ".git"),
)
probe(
    "writes the package that judges it",
    "files",
    READ_ONLY,
    lambda: any_path(write_again, PACKAGE / "experiments/board/verify.py", PACKAGE / "__init__.py"),
)
probe(
    "adds a module to the package",
    "files",
    READ_ONLY,
    lambda: any_path(new_file, PACKAGE, PACKAGE / "experiments", PACKAGE / "simulators"),
)
probe(
    "writes site-packages",
    "files",
    READ_ONLY,
    lambda: any_path(new_file, Path(json.__file__).parents[1], Path(sys.prefix) / "bin"),
)
probe(
    "writes the interpreter",
    "files",
    READ_ONLY,
    lambda: os.close(os.open(Path(sys.executable).resolve().with_name("python-x"), os.O_CREAT | os.O_WRONLY)),
    False,
)
probe("writes its own code, for the next episode", "files", READ_ONLY, lambda: write_again(Path(__file__)))
probe("renames a file of the package", "files", READ_ONLY, lambda: os.rename(PACKAGE / "__init__.py", PACKAGE / "__init__.py"))
probe(
    "changes modes or times in the package",
    "files",
    READ_ONLY,
    lambda: any_of(lambda: os.chmod(PACKAGE / "__init__.py", 0o644), lambda: os.utime(PACKAGE / "__init__.py")),
)
probe("writes /, /usr or /etc", "files", READ_ONLY, lambda: any_path(new_file, "/", "/usr", "/etc"))
probe("finds another mount that can be written", "files", READ_ONLY, writable_mounts)
probe("writes to /dev/shm", "files", READ_ONLY, lambda: new_file(Path("/dev/shm")))
probe(
    "makes a device",
    "files",
    FILTER,
    lambda: (os.mknod(HOME / "device", 0o600 | 0o20000, os.makedev(1, 1)), (HOME / "device").unlink()),
)
probe(
    "opens a disk, the memory or the kernel's log",
    "files",
    ABSENT,
    lambda: any_path(read_byte, "/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg", "/proc/kcore"),
)
probe(
    "sets a setting of the kernel",
    "files",
    READ_ONLY,
    lambda: any_path(write_again, "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory"),
)

# -- network -------------------------------------------------------------------------------------------------------------------

probe(
    "connects to a TCP port of the machine", "network", FILTER, lambda: connects(socket.AF_INET, ("127.0.0.1", TOLD["port"]))()
)
probe("opens a UDP socket", "network", FILTER, sockets(socket.AF_INET, socket.SOCK_DGRAM))
probe("opens an IPv6 socket", "network", FILTER, sockets(socket.AF_INET6))
probe("opens a raw socket", "network", FILTER, sockets(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
probe("opens a packet socket", "network", FILTER, sockets(socket.AF_PACKET, socket.SOCK_RAW))
probe("connects to a Unix socket", "network", FILTER, lambda: connects(socket.AF_UNIX, TOLD["helper"])())
probe("connects to an abstract socket", "network", FILTER, lambda: connects(socket.AF_UNIX, "\0" + TOLD["abstract"])())
probe("opens a netlink socket", "network", FILTER, sockets(socket.AF_NETLINK, socket.SOCK_RAW))
probe("makes a pair of sockets", "network", FILTER, socket.socketpair)
probe("asks a name server", "network", FILTER, lambda: socket.getaddrinfo("localhost", 80))

# -- processes -----------------------------------------------------------------------------------------------------------------

probe("forks", "processes", FILTER, fork)
probe("clones a process by hand", "processes", FILTER, lambda: child(56, 17, None, None, None, None))
probe(
    "clones a process by clone3",
    "processes",
    FILTER,
    lambda: child(435, ctypes.create_string_buffer(bytes(32) + (17).to_bytes(8, "little") + bytes(48)), 88),
)
probe(
    "starts a program",
    "processes",
    FILTER,
    lambda: any_of(lambda: subprocess.run(["/bin/true"], check=True), lambda: os.posix_spawn("/bin/true", ["true"], {})),
)
probe("sees another process", "processes", NAMESPACE, lambda: expect(others()))
probe("sends its judge a signal", "processes", NAMESPACE, lambda: os.kill(JUDGE, 0))
probe(
    "reads its judge's memory",
    "processes",
    NAMESPACE,
    lambda: any_of(lambda: read_byte(Path(f"/proc/{JUDGE}/mem")), lambda: read_byte(Path(f"/proc/{JUDGE}/maps"))),
)
probe("traces a process", "processes", FILTER, lambda: call(101, 0x4206, JUDGE or os.getppid(), 0, 0), False)
probe("copies memory out of a process", "processes", FILTER, lambda: call(310, os.getpid(), None, 0, None, 0, 0))
probe("takes over a handle of another process", "processes", FILTER, lambda: call(434, os.getpid(), 0))
probe("finds keys in an environment", "processes", NAMESPACE, environments)
probe("finds a pipe or a file that its judge left open", "processes", NAMESPACE, handles)
probe("gains privileges by a setuid program", "processes", CAPABILITIES, confined_twice)
probe("holds a capability", "processes", CAPABILITIES, capabilities)
probe("becomes another user", "processes", CAPABILITIES, lambda: os.setresuid(-1, 12345, -1), False)
probe(
    "makes itself safe from the out-of-memory killer",
    "processes",
    CAPABILITIES,
    lambda: Path("/proc/self/oom_score_adj").write_text("-500"),
    False,
)
probe(
    "takes the processor with a real-time priority",
    "processes",
    CAPABILITIES,
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    False,
)

# -- kernel --------------------------------------------------------------------------------------------------------------------

probe("makes a namespace", "kernel", FILTER, lambda: call(272, 0x10000000), False)
probe("enters a namespace", "kernel", FILTER, lambda: call(308, os.open("/proc/self/ns/uts", os.O_RDONLY), 0))
probe("mounts a file system", "kernel", FILTER, lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0), False)
probe("makes a read-only mount writable", "kernel", FILTER, lambda: call(165, b"none", b"/", None, 32, None), False)
probe("takes a mount away", "kernel", FILTER, lambda: call(166, str(PACKAGE).encode(), 2), False)
probe("changes the root", "kernel", FILTER, lambda: any_of(lambda: os.chroot("/"), lambda: call(155, b"/tmp", b"/tmp")))
probe("sets the host's name", "kernel", FILTER, lambda: socket.sethostname(socket.gethostname()))
probe("sets the clock", "kernel", FILTER, clock, False)
probe(
    "loads a module or another kernel",
    "kernel",
    FILTER,
    lambda: any_of(lambda: call(175, b"x", 1, b""), lambda: call(246, 0, 0, None, 0)),
    False,
)
probe(
    "loads a program into the kernel (bpf)",
    "kernel",
    FILTER,
    lambda: call(321, 0, ctypes.create_string_buffer(b"\x02\0\0\0\x04\0\0\0\x04\0\0\0\x01" + bytes(120)), 128),
)
probe(
    "counts events of the processor (perf)",
    "kernel",
    FILTER,
    lambda: call(298, ctypes.create_string_buffer(b"\x01\0\0\0\x70\0\0\0" + bytes(120)), 0, -1, -1, 0),
)
probe("sets up an io_uring", "kernel", FILTER, lambda: os.close(call(425, 1, ctypes.create_string_buffer(120))))
probe("handles page faults itself (userfaultfd)", "kernel", FILTER, lambda: os.close(call(323, 0)))
probe(
    "reads or adds keys of the kernel",
    "kernel",
    FILTER,
    lambda: any_of(lambda: call(250, 0, -2, 1), lambda: call(248, b"user", b"x", b"y", 1, -2)),
)
probe("types into a terminal (TIOCSTI)", "kernel", FILTER, types_into_a_terminal)
probe("reads the kernel's log", "kernel", FILTER, lambda: call(103, 10, None, 0))
probe("talks to ports of the hardware", "kernel", FILTER, lambda: call(172, 3), False)

# -- limits --------------------------------------------------------------------------------------------------------------------

probe("takes 16 GiB of memory", "limits", LIMIT, lambda: bytearray(16 * GIB), False)
probe("takes 16 GiB of shared memory", "limits", FILTER, lambda: mmap.mmap(-1, 16 * GIB).close())
probe("takes shared memory by /dev/zero", "limits", READ_ONLY, map_zero)
probe("takes memory as a file without a name", "limits", FILTER, own_memory_file)
probe("takes memory as a segment of System V", "limits", FILTER, lambda: call(31, call(29, 0, MIB, 0o1600), 0, None))
probe(
    "reserves a terabyte of addresses",
    "limits",
    LIMIT,
    lambda: mmap.mmap(-1, 2**40, mmap.MAP_PRIVATE | 0x4000, mmap.PROT_READ).close(),
)
probe(
    "fills a file in its home or in /tmp",
    "limits",
    LIMIT,
    lambda: any_path(lambda path: fill(path / "big", 512 * MIB), HOME, "/tmp"),
    False,
)
probe("makes a file with a hole of a terabyte", "limits", LIMIT, lambda: hole(Path(tempfile.gettempdir()) / "hole", 2**40))
probe("opens a thousand files", "limits", LIMIT, lambda: [os.close(number) for number in [os.dup(0) for _ in range(1000)]])
probe("starts thousands of threads", "limits", LIMIT, threads, False)
probe(
    "raises its limits of files, processor time or memory",
    "limits",
    LIMIT,
    lambda: any_of(
        *map(raises_limit, (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_STACK))
    ),
)
probe("lets its core be dumped", "limits", LIMIT, lambda: set_limit(resource.RLIMIT_CORE, 1, 1))


class Probes(Agent):
    """Plays every probe, or those that do no harm, and answers with what came of each."""

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        pass

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        found = {}
        for name, each in PROBES.items():
            if name in TOLD["left_out"] or not (TOLD["confined"] or each.harmless):
                continue
            try:
                each.attack()
                found[name] = "done"
            except OSError as error:
                found[name] = errno.errorcode.get(error.errno or 0, type(error).__name__)
            except (MemoryError, RuntimeError) as error:
                found[name] = type(error).__name__
            except Exception as error:
                found[name] = f"error: {type(error).__name__}: {error}"
        return json.dumps(found)


class Attack(Agent):
    """Does one thing that ends or blocks a process."""

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        pass

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        self.attack()
        return 0

    def attack(self) -> None:
        """What it does."""


class Spins(Attack):
    def attack(self) -> None:
        while True:
            pass


class Sleeps(Attack):
    def attack(self) -> None:
        threading.Event().wait()


class CallsByAnotherNumber(Attack):
    """A socket by its number in the x32 form, which a filter for x86-64 alone would not see."""

    def attack(self) -> None:
        libc.syscall(ctypes.c_long(0x40000000 | 41), 2, 1, 0)


class Stays(Attack):
    """Leaves a thread that ignores signals."""

    def attack(self) -> None:
        import signal

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        threading.Thread(target=threading.Event().wait).start()


class Honest(Attack):
    """Reads its files, and writes to its home."""

    def attack(self) -> None:
        (HOME / "notes").write_text((HERE / "told.json").read_text())
        assert json.loads((HOME / "notes").read_text()) == TOLD
