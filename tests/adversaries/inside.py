# ruff: noqa: PTH101, PTH104, PTH208
"""Attacks on the sandbox from inside: the file of an agent, which tries each and says what came of it.

A probe that returns has succeeded; one that raises OSError, MemoryError or RuntimeError (threads) was refused. Anything else is
an error of the probe. Numbers of system calls are those of x86-64.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents import Agent

try:  # as the file of an agent, which has the other beside it
    import attempts as do
except ImportError:
    from tests.adversaries import attempts as do

HERE, TOLD, MIB, GIB = do.HERE, do.TOLD, do.MIB, do.GIB


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


SECRET, PACKAGE = Path(TOLD.get("secret", "/none")), Path(TOLD.get("package", "/none"))
JUDGE = int(TOLD.get("judge", 0))
HOME = Path.home()

# -- files ---------------------------------------------------------------------------------------------------------------------

probe("reads the secret of its judge", "files", ABSENT, lambda: SECRET.read_text())
probe("lists the folder of the secret", "files", ABSENT, lambda: do.expect("secret" in os.listdir(SECRET.parent)))
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
    lambda: do.call(303, -100, b"/", ctypes.create_string_buffer(b"\x80" + bytes(140)), ctypes.byref(ctypes.c_int()), 0),
)
probe("reads another entry's files", "files", ABSENT, lambda: (HERE.parent / "other/own.py").read_text())
probe("reads the keys of the judge's user", "files", ABSENT, lambda: (Path(TOLD["home"]) / ".ssh/id").read_text())
probe("reads /etc/passwd or /etc/shadow", "files", ABSENT, lambda: do.any_path(do.read_byte, "/etc/passwd", "/etc/shadow"))
probe(
    "lists /home, /root, /var, /run, /srv or /sys",
    "files",
    ABSENT,
    lambda: do.any_of(
        *(lambda folder=folder: do.belongings(folder) for folder in ("/home", "/root", "/var", "/run", "/srv", "/sys"))  # type: ignore[misc]
    ),
)
probe(
    "reads the tests or the repository",
    "files",
    ABSENT,
    lambda: do.any_path(os.listdir, PACKAGE.parent / "tests", PACKAGE.parent / ".git"),
)
probe(
    "writes the package that judges it",
    "files",
    READ_ONLY,
    lambda: do.any_path(do.write_again, PACKAGE / "experiments/board/verify.py", PACKAGE / "__init__.py"),
)
probe(
    "adds a module to the package",
    "files",
    READ_ONLY,
    lambda: do.any_path(do.new_file, PACKAGE, PACKAGE / "experiments", PACKAGE / "simulators"),
)
probe(
    "writes site-packages",
    "files",
    READ_ONLY,
    lambda: do.any_path(do.new_file, Path(json.__file__).parents[1], Path(sys.prefix) / "bin"),
)
probe(
    "writes the interpreter",
    "files",
    READ_ONLY,
    lambda: os.close(os.open(Path(sys.executable).resolve().with_name("python-x"), os.O_CREAT | os.O_WRONLY)),
    False,
)
probe("writes its own code, for the next episode", "files", READ_ONLY, lambda: do.write_again(Path(__file__)))
probe("renames a file of the package", "files", READ_ONLY, lambda: os.rename(PACKAGE / "__init__.py", PACKAGE / "__init__.py"))
probe(
    "changes modes or times in the package",
    "files",
    READ_ONLY,
    lambda: do.any_of(lambda: os.chmod(PACKAGE / "__init__.py", 0o644), lambda: os.utime(PACKAGE / "__init__.py")),
)
probe("writes /, /usr or /etc", "files", READ_ONLY, lambda: do.any_path(do.new_file, "/", "/usr", "/etc"))
probe("finds another mount that can be written", "files", READ_ONLY, do.writable_mounts)
probe("writes to /dev/shm", "files", READ_ONLY, lambda: do.new_file(Path("/dev/shm")))
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
    lambda: do.any_path(do.read_byte, "/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg", "/proc/kcore"),
)
probe(
    "sets a setting of the kernel",
    "files",
    READ_ONLY,
    lambda: do.any_path(
        do.write_again, "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory"
    ),
)

# -- network -------------------------------------------------------------------------------------------------------------------

probe(
    "connects to a TCP port of the machine",
    "network",
    FILTER,
    lambda: do.connects(socket.AF_INET, ("127.0.0.1", TOLD["port"]))(),
)
probe("opens a UDP socket", "network", FILTER, do.sockets(socket.AF_INET, socket.SOCK_DGRAM))
probe("opens an IPv6 socket", "network", FILTER, do.sockets(socket.AF_INET6))
probe("opens a raw socket", "network", FILTER, do.sockets(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
probe("opens a packet socket", "network", FILTER, do.sockets(socket.AF_PACKET, socket.SOCK_RAW))
probe("connects to a Unix socket", "network", FILTER, lambda: do.connects(socket.AF_UNIX, TOLD["helper"])())
probe("connects to an abstract socket", "network", FILTER, lambda: do.connects(socket.AF_UNIX, "\0" + TOLD["abstract"])())
probe("opens a netlink socket", "network", FILTER, do.sockets(socket.AF_NETLINK, socket.SOCK_RAW))
probe("makes a pair of sockets", "network", FILTER, socket.socketpair)
probe("asks a name server", "network", FILTER, lambda: socket.getaddrinfo("localhost", 80))

# -- processes -----------------------------------------------------------------------------------------------------------------

probe("forks", "processes", FILTER, do.fork)
probe("clones a process by hand", "processes", FILTER, lambda: do.child(56, 17, None, None, None, None))
probe(
    "clones a process by clone3",
    "processes",
    FILTER,
    lambda: do.child(435, ctypes.create_string_buffer(bytes(32) + (17).to_bytes(8, "little") + bytes(48)), 88),
)
probe(
    "starts a program",
    "processes",
    FILTER,
    lambda: do.any_of(lambda: subprocess.run(["/bin/true"], check=True), lambda: os.posix_spawn("/bin/true", ["true"], {})),
)
probe("sees another process", "processes", NAMESPACE, lambda: do.expect(do.others()))
probe("sends its judge a signal", "processes", NAMESPACE, lambda: os.kill(JUDGE, 0))
probe(
    "reads its judge's memory",
    "processes",
    NAMESPACE,
    lambda: do.any_of(lambda: do.read_byte(Path(f"/proc/{JUDGE}/mem")), lambda: do.read_byte(Path(f"/proc/{JUDGE}/maps"))),
)
probe("traces a process", "processes", FILTER, lambda: do.call(101, 0x4206, JUDGE or os.getppid(), 0, 0), False)
probe("copies memory out of a process", "processes", FILTER, lambda: do.call(310, os.getpid(), None, 0, None, 0, 0))
probe("takes over a handle of another process", "processes", FILTER, lambda: do.call(434, os.getpid(), 0))
probe("finds keys in an environment", "processes", NAMESPACE, do.environments)
probe("finds a pipe or a file that its judge left open", "processes", NAMESPACE, do.handles)
probe("gains privileges by a setuid program", "processes", CAPABILITIES, do.confined_twice)
probe("holds a capability", "processes", CAPABILITIES, do.capabilities)
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

probe("makes a namespace", "kernel", FILTER, lambda: do.call(272, 0x10000000), False)
probe("enters a namespace", "kernel", FILTER, lambda: do.call(308, os.open("/proc/self/ns/uts", os.O_RDONLY), 0))
probe("mounts a file system", "kernel", FILTER, lambda: do.call(165, b"none", b"/tmp", b"tmpfs", 0, 0), False)
probe("makes a read-only mount writable", "kernel", FILTER, lambda: do.call(165, b"none", b"/", None, 32, None), False)
probe("takes a mount away", "kernel", FILTER, lambda: do.call(166, str(PACKAGE).encode(), 2), False)
probe("changes the root", "kernel", FILTER, lambda: do.any_of(lambda: os.chroot("/"), lambda: do.call(155, b"/tmp", b"/tmp")))
probe("sets the host's name", "kernel", FILTER, lambda: socket.sethostname(socket.gethostname()))
probe("sets the clock", "kernel", FILTER, do.clock, False)
probe(
    "loads a module or another kernel",
    "kernel",
    FILTER,
    lambda: do.any_of(lambda: do.call(175, b"x", 1, b""), lambda: do.call(246, 0, 0, None, 0)),
    False,
)
probe(
    "loads a program into the kernel (bpf)",
    "kernel",
    FILTER,
    lambda: do.call(321, 0, ctypes.create_string_buffer(b"\x02\0\0\0\x04\0\0\0\x04\0\0\0\x01" + bytes(120)), 128),
)
probe(
    "counts events of the processor (perf)",
    "kernel",
    FILTER,
    lambda: do.call(298, ctypes.create_string_buffer(b"\x01\0\0\0\x70\0\0\0" + bytes(120)), 0, -1, -1, 0),
)
probe("sets up an io_uring", "kernel", FILTER, lambda: os.close(do.call(425, 1, ctypes.create_string_buffer(120))))
probe("handles page faults itself (userfaultfd)", "kernel", FILTER, lambda: os.close(do.call(323, 0)))
probe(
    "reads or adds keys of the kernel",
    "kernel",
    FILTER,
    lambda: do.any_of(lambda: do.call(250, 0, -2, 1), lambda: do.call(248, b"user", b"x", b"y", 1, -2)),
)
probe("types into a terminal (TIOCSTI)", "kernel", FILTER, do.types_into_a_terminal)
probe("reads the kernel's log", "kernel", FILTER, lambda: do.call(103, 10, None, 0))
probe("talks to ports of the hardware", "kernel", FILTER, lambda: do.call(172, 3), False)

# -- limits --------------------------------------------------------------------------------------------------------------------

probe("takes 16 GiB of memory", "limits", LIMIT, lambda: bytearray(16 * GIB), False)
probe("takes 16 GiB of shared memory", "limits", FILTER, lambda: mmap.mmap(-1, 16 * GIB).close())
probe("takes shared memory by /dev/zero", "limits", READ_ONLY, do.map_zero)
probe("takes memory as a file without a name", "limits", FILTER, do.own_memory_file)
probe("takes memory as a segment of System V", "limits", FILTER, lambda: do.call(31, do.call(29, 0, MIB, 0o1600), 0, None))
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
    lambda: do.any_path(lambda path: do.fill(path / "big", 512 * MIB), HOME, "/tmp"),
    False,
)
probe("makes a file with a hole of a terabyte", "limits", LIMIT, lambda: do.hole(Path(tempfile.gettempdir()) / "hole", 2**40))
probe("opens a thousand files", "limits", LIMIT, lambda: [os.close(number) for number in [os.dup(0) for _ in range(1000)]])
probe("starts thousands of threads", "limits", LIMIT, do.threads, False)
probe(
    "raises its limits of files, processor time or memory",
    "limits",
    LIMIT,
    lambda: do.any_of(
        *map(do.raises_limit, (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_STACK))
    ),
)
probe("lets its core be dumped", "limits", LIMIT, lambda: do.set_limit(resource.RLIMIT_CORE, 1, 1))


class Probes(Agent):
    """Plays every probe, or those that do no harm, and answers with what came of each."""

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        pass

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        outcomes = {}
        for name, probe in PROBES.items():
            if name in TOLD["left_out"] or not (TOLD["confined"] or probe.harmless):
                continue
            try:
                probe.attack()
                outcomes[name] = "done"
            except OSError as error:
                outcomes[name] = errno.errorcode.get(error.errno or 0, type(error).__name__)
            except (MemoryError, RuntimeError) as error:
                outcomes[name] = type(error).__name__
            except Exception as error:
                outcomes[name] = f"error: {type(error).__name__}: {error}"
        return json.dumps(outcomes)


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
        do.libc.syscall(ctypes.c_long(0x40000000 | 41), 2, 1, 0)


class Stays(Attack):
    """Leaves a thread that ignores signals."""

    def attack(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        threading.Thread(target=threading.Event().wait).start()


class Honest(Attack):
    """Reads its files, and writes to its home."""

    def attack(self) -> None:
        (HOME / "notes").write_text((HERE / "told.json").read_text())
        assert json.loads((HOME / "notes").read_text()) == TOLD
