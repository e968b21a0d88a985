"""What an agent's own code can do inside the sandbox: read its files, think and answer; nothing else."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

import costgym
from costgym.agents.base import NUMERIC
from costgym.experiments.board.reruns.process_agent import ProcessAgent
from costgym.experiments.board.reruns.sandbox import BUBBLEWRAP, NONE, choose, why_not

PROBES = '''
import ctypes, json, mmap, os, resource, socket, subprocess, sys
from pathlib import Path
from costgym.agents import Agent

HERE = Path(__file__).parent
WHERE = json.loads((HERE / "where.json").read_text())
SECRET, PACKAGE, HELPER = Path(WHERE["secret"]), Path(WHERE["package"]), WHERE["helper"]
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    """A system call by its number on x86-64."""
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def fill(path, size):
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(2**20))


def opened(family, kind=socket.SOCK_STREAM):
    return socket.socket(family, kind)


PROBES = {
    "read the secret": lambda: SECRET.read_text(),
    "find the secret": lambda: os.listdir(SECRET.parent).index("secret"),
    "link to the secret": lambda: os.link(SECRET, Path.home() / "link"),
    "read through a symbolic link": lambda: ((Path.home() / "to").symlink_to(SECRET), (Path.home() / "to").read_text()),
    "read /etc/passwd": lambda: Path("/etc/passwd").read_text(),
    "read /etc/shadow": lambda: Path("/etc/shadow").read_text(),
    "read /root/.ssh": lambda: os.listdir("/root/.ssh"),
    "list /home": lambda: os.listdir("/home"),
    "list /var": lambda: os.listdir("/var"),
    "list /run": lambda: os.listdir("/run"),
    "list /sys": lambda: os.listdir("/sys"),
    "read the tests": lambda: os.listdir(PACKAGE.parent / "tests"),
    "read the repository": lambda: os.listdir(PACKAGE.parent / ".git"),
    "write the package": lambda: (PACKAGE / "x").write_text("x"),
    "write what judges": lambda: (PACKAGE / "experiments" / "board" / "verify.py").open("a"),
    "write site-packages": lambda: (Path(json.__file__).parents[1] / "x").write_text("x"),
    "write the interpreter": lambda: open(sys.executable, "ab"),
    "write its own files": lambda: (HERE / "x").write_text("x"),
    "write /usr": lambda: Path("/usr/x").write_text("x"),
    "write /etc": lambda: Path("/etc/x").write_text("x"),
    "write /dev/shm without bound": lambda: fill(Path("/dev/shm/x"), 2**29),
    "see another process": lambda: [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 3][0],
    "read the memory of its parent": lambda: Path(f"/proc/{os.getppid()}/mem").open("rb").read(1),
    "trace a process": lambda: call(101, 16, os.getppid(), 0, 0),
    "TCP": lambda: opened(socket.AF_INET).connect(("127.0.0.1", WHERE["port"])),
    "UDP": lambda: opened(socket.AF_INET, socket.SOCK_DGRAM),
    "IPv6": lambda: opened(socket.AF_INET6),
    "a Unix socket": lambda: opened(socket.AF_UNIX).connect(HELPER),
    "an abstract socket": lambda: opened(socket.AF_UNIX).connect("\\0costgym-probe"),
    "netlink": lambda: opened(socket.AF_NETLINK, socket.SOCK_RAW),
    "a name server": lambda: socket.getaddrinfo("example.org", 80),
    "fork": os.fork,
    "a child process": lambda: subprocess.run(["/bin/true"]),
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "mount": lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0),
    "a new namespace": lambda: call(272, 0x10000000),
    "change the root": lambda: os.chroot("/tmp"),
    "bpf": lambda: call(321, 0, 0, 0),
    "keys": lambda: call(250, 0, -3, 1),
    "io_uring": lambda: call(425, 8, 0),
    "the hostname": lambda: socket.sethostname("mine"),
    "a device": lambda: os.mknod("/tmp/device", 0o600 | 0o20000, os.makedev(1, 1)),
    "sixteen gigabytes": lambda: bytearray(16 * 2**30),
    "a file of half a gigabyte": lambda: fill(Path("/tmp/big"), 2**29),
    "a thousand files": lambda: [open("/dev/null") for _ in range(1000)],
    "higher limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10**5, 10**5)),
}


class Probe(Agent):
    def reset(self, seat, observation, info, seed):
        pass

    def act(self, observation, info):
        found = {}
        for name, probe in PROBES.items():
            try:
                found[name] = f"done: {probe()!r:.80}"
            except (OSError, MemoryError, ValueError, IndexError, subprocess.SubprocessError) as error:
                found[name] = "refused"
        found["keys"] = found["keys"] if "KEY" not in " ".join(os.environ) else str(dict(os.environ))
        return json.dumps(found)


class Honest(Agent):
    def reset(self, seat, observation, info, seed):
        pass

    def act(self, observation, info):
        (Path.home() / "notes").write_text("kept")
        return (HERE / "where.json").read_text()[:1] + (Path.home() / "notes").read_text()
'''


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "probe.py").write_text(PROBES)
    return folder


@pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")
def test_every_probe_from_inside_the_sandbox_is_refused(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    (tmp_path / "secret").write_text("s" * 40)
    with socket.socket(socket.AF_UNIX) as helper, socket.create_server(("127.0.0.1", 0)) as server:
        helper.bind(str(tmp_path / "helper"))
        helper.listen()
        where = {
            "secret": str(tmp_path / "secret"),
            "package": str(Path(costgym.__file__).resolve().parent),
            "helper": str(tmp_path / "helper"),
            "port": server.getsockname()[1],
        }
        (code / "where.json").write_text(json.dumps(where))
        with ProcessAgent("probe.py:Probe", NUMERIC, code, sandbox=BUBBLEWRAP) as agent:
            found = json.loads(agent.act({}, {}))
    assert len(found) >= 40
    assert {name: said for name, said in found.items() if said != "refused"} == {}
    assert sorted(path.name for path in code.iterdir()) == ["probe.py", "where.json"]


@pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")
def test_an_honest_agent_reads_its_files_and_writes_to_its_home(code: Path) -> None:
    (code / "where.json").write_text(json.dumps({"secret": "", "package": "", "helper": ""}))
    with ProcessAgent("probe.py:Honest", NUMERIC, code, sandbox=BUBBLEWRAP) as agent:
        assert agent.act({}, {}) == "{kept"


def test_a_sandbox_that_is_unknown_or_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(costgym.UnknownName, match="sandbox"):
        choose("docker")
    assert choose(NONE) == NONE
    monkeypatch.setattr("costgym.experiments.board.reruns.sandbox.why_not", lambda: "bwrap not installed")
    assert choose("auto") == NONE
    with pytest.raises(costgym.ConfigError, match="bwrap not installed"):
        choose(BUBBLEWRAP)
