"""Start a command, in a network of its own where a socket is given. Run as a file, with the standard library alone.

    python launch.py SOCKET PORT COMMAND...

The command dies with the process that started it. With a SOCKET other than `-`, connections to PORT of this machine, which in a
network of its own has nothing else, are passed on to that Unix socket.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading

_SET_DEATH_SIGNAL = 1  # prctl(2)
_CHUNK = 65_536


def main(path: str, port: str, *command: str) -> int:
    """Run the command and return its exit status."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if path == "-":
        os.execvp(command[0], command)
    server = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=_accept, args=(server, path), daemon=True).start()
    status = subprocess.run(command, check=False).returncode
    return status if status >= 0 else 128 - status  # as a shell tells of a signal


def _accept(server: socket.socket, path: str) -> None:
    while True:
        client, _ = server.accept()
        outside = socket.socket(socket.AF_UNIX)
        try:
            outside.connect(path)
        except OSError:
            client.close()
            continue
        for ends in ((client, outside), (outside, client)):
            threading.Thread(target=_copy, args=ends, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            end.shutdown(how)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except OSError as error:
        sys.exit(f"{sys.argv[3]}: {error.strerror}")
