"""A sandbox for the process of an agent: bubblewrap, a filter of system calls, and limits of resources.

Inside there are the interpreter, its packages and costgym, all read-only, the agent's own files, read-only too, and an empty
home and /tmp in memory. There is no network, no other process, no other file, and no capability. Bubblewrap needs no privilege
where the system allows user namespaces.
"""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from costgym.simulators.errors import ConfigError, check_known

SANDBOXES = ("auto", "bubblewrap", "none")
NONE, BUBBLEWRAP = "none", "bubblewrap"
MEMORY_BYTES = 8 * 2**30  # private, writable
FILE_BYTES = 256 * 2**20  # in each of the two folders that can be written to
OPEN_FILES = 256
PROCESSOR_S = 6 * 3600
ADDRESS_BYTES = 256 * 2**30  # reserved; pages that are only read cost tables of pages
STACK_BYTES = 64 * 2**20  # a stack that grows does not count as data
THREADS = 4096  # the kernel counts none of root's, and older ones count all of a user's
THREADS_ONLY = ("fork", "vfork")
REFUSED = (
    *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_open", "pidfd_getfd"),
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "fanotify_init", "syslog", "vhangup", "iopl", "ioperm", "modify_ldt"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "keyctl", "add_key", "request_key"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff"),
    *("acct", "quotactl", "clock_settime", "clock_adjtime", "settimeofday", "adjtimex", "sethostname", "setdomainname"),
    *("shmget", "msgget", "semget", "mq_open", "name_to_handle_at", "open_by_handle_at", "link", "linkat", "mknod", "mknodat"),
    *("memfd_create", "memfd_secret"),
)
"""System calls that fail with EPERM. None is needed to read observations and to answer them."""
_CLONE_THREAD = 0x10000
_SHARED_NO_FILE = 0x21  # of mmap: shared memory without a file counts neither as data nor as a file
_TERMINAL = (0x5412, 0x541C)  # ioctls that type into a terminal: TIOCSTI, TIOCLINUX


class Place(NamedTuple):
    """The paths that an agent's process is given."""

    home: Path  # an empty folder, in memory; the process starts here where there is no `code`
    code: Path | None = None  # the folder of the agent's own files, read-only; the process starts here


def choose(sandbox: str) -> str:
    """Return the sandbox to use: `bubblewrap` or `none`; `auto` takes bubblewrap where this machine has it. Raises ConfigError
    if bubblewrap is asked for, and this machine cannot run it."""
    check_known("sandbox", sandbox, SANDBOXES)
    if sandbox == NONE:
        return NONE
    reason = why_not()
    if not reason:
        return BUBBLEWRAP
    if sandbox == BUBBLEWRAP:
        raise ConfigError("--sandbox", f"bubblewrap cannot be used here: {reason}")
    return NONE


@lru_cache(maxsize=1)
def why_not() -> str:
    """Return why this machine cannot sandbox a process; "" where it can."""
    missing = [name for name in ("bwrap", "prlimit") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed (Debian: apt-get install bubblewrap util-linux)"
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError) as error:
        return f"{error}; pip install 'costgym[sandbox]', and the system's libseccomp"
    with tempfile.TemporaryDirectory() as home, confined(("true",), Place(Path(home))) as (command, handles):
        tried = subprocess.run(command, pass_fds=handles, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["bubblewrap fails"])[-1]


@contextmanager
def confined(command: Sequence[str], paths: Place) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Yield a command that runs another in the sandbox, and the file handles that it must inherit. Run as an ordinary user: the
    kernel counts none of root's threads, so only their memory bounds those."""
    handle = _filter()
    try:
        limits = _limits(data=MEMORY_BYTES, stack=STACK_BYTES, fsize=FILE_BYTES, nofile=OPEN_FILES, cpu=PROCESSOR_S, core=0)
        memory = ("--size", str(FILE_BYTES), "--tmpfs")
        alone = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "agent")
        mounts = [word for path in _readable() for word in ("--ro-bind", path, path)]
        code = () if paths.code is None else ("--ro-bind", str(paths.code.resolve()), str(paths.code.resolve()))
        start = paths.home if paths.code is None else paths.code.resolve()
        whole = [
            *("prlimit", *limits, *_limits(**{"as": ADDRESS_BYTES}), "--", "bwrap", *alone, "--seccomp", str(handle)),
            *(*memory, "/tmp", *mounts, *_links(), "--proc", "/proc", "--dev", "/dev"),
            *("--ro-bind", "/dev/zero", "/dev/zero"),  # mounted without devices: shared, it would be memory that nobody counts
            # after the packages, so that a home or a folder of files below one of them is what it says; a sandbox that root
            # runs could write the kernel's settings below /proc/sys without any capability
            *(*memory, str(paths.home), *code, "--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"),
            # threads are counted by user and namespace, so this limit is set inside
            *("--chdir", str(start), "--", "prlimit", *_limits(nproc=THREADS), "--", *command),
        ]
        yield whole, (handle,)
    finally:
        os.close(handle)


def _limits(**wanted: int) -> list[str]:
    """Return words of prlimit that lower limits; none is raised above what this process may have."""
    import resource

    hard = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1] for name in wanted}
    most = {name: value if hard[name] == resource.RLIM_INFINITY else min(value, hard[name]) for name, value in wanted.items()}
    return [f"--{name}={value}" for name, value in most.items()]


def _readable() -> list[str]:
    """List what an interpreter with this one's packages reads, outermost folders first."""
    package = Path(str(sys.modules[__name__.partition(".")[0]].__file__)).resolve().parent
    system = [Path(path) for path in ("/usr", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/alternatives")]
    readable = {path for path in (*map(Path, (sys.prefix, sys.base_prefix)), package, *system) if path.exists()}
    readable |= {path.resolve() for path in readable}
    return sorted(str(path) for path in readable if not readable.intersection(path.parents))


def _links() -> list[str]:
    """Return the system's folders of programs and libraries as they are here: links into /usr, or folders."""
    words: list[str] = []
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")):
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _filter() -> int:
    """Return an open handle on the compiled filter of system calls: no socket, no child process, no look at others."""
    import pyseccomp

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in (*REFUSED, *THREADS_ONLY):
        try:
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
        except (RuntimeError, ValueError, OSError):
            continue  # this processor has no such call
    # threads are made by clone with this flag; clone3 hides its flags in memory, and libraries fall back where it is missing
    not_a_thread = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, 0)
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", not_a_thread)
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    shared = pyseccomp.Arg(3, pyseccomp.MASKED_EQ, _SHARED_NO_FILE, _SHARED_NO_FILE)
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "mmap", shared)
    for request in _TERMINAL:
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    handle = os.memfd_create("filter", 0)
    with os.fdopen(os.dup(handle), "wb") as program:
        rules.export_bpf(program)
    os.lseek(handle, 0, os.SEEK_SET)
    os.set_inheritable(handle, True)
    return handle
