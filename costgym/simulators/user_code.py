"""Python files that a user names in a scenario.

A file is read where the user's own scenario file names it, and run when its world is built. A record names it by its hash: code
is never taken from where a record, an entry or a server says.
"""

import hashlib
import inspect
from collections.abc import Callable
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from costgym.simulators.errors import ConfigError, DataError

known: dict[str, bytes] = {}
"""The content of files that the user has named in this process, by its SHA-256."""


class _Content(InspectLoader):
    """Loads a module from a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text


def read(path: Path) -> dict[str, str]:
    """Read a file that a scenario of the user's names; returns its name and the hash of its content."""
    try:
        content = path.read_bytes()
        compile(content, str(path), "exec")
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(path, f"expected a Python file of generator functions ({error})", "processes") from None
    digest = hashlib.sha256(content).hexdigest()
    known[digest] = content
    return {"file": path.name, "sha256": digest}


def functions(file: str, digest: str) -> tuple[Callable[[Any], Any], ...]:
    """The generator functions of a file that was read before, in its order; those that begin with an underscore are its own."""
    if digest not in known:
        wanted = f"expected the file {file} with the SHA-256 {digest[:12]}…; load the scenario from the YAML file that names it"
        raise ConfigError("processes", wanted)
    loader = _Content(known[digest].decode())
    module = module_from_spec(ModuleSpec(Path(file).stem, loader, origin=file))
    loader.exec_module(module)
    members = vars(module).items()
    made = tuple(value for name, value in members if inspect.isgeneratorfunction(value) and not name.startswith("_"))
    if not made:
        raise ConfigError("processes", f"expected a generator function of the episode in {file}, found none")
    return made
