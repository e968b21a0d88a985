"""Write a static page on which a person plays: the world's own code runs in the browser, by Pyodide."""

import importlib.util
import io
import json
import shutil
import zipfile
from pathlib import Path

from markupsafe import Markup

from costgym.experiments.pages.html import asset, render
from costgym.experiments.play.trajectories.format import Header
from costgym.simulators.errors import DataError
from costgym.simulators.files import make_folder, write_atomically

PYODIDE = "314.0.7"  # release of Pyodide: Python 3.14
CDN = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full/"
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
COMPILED = ("numpy", "pydantic")  # packages that Pyodide has to bring, with what they need
PURE = ("gymnasium", "simpy", "yaml", "farama_notifications", "cloudpickle")  # packages that run as they are installed here
OURS = ("simulators", "envs", "agents", "experiments/play")  # folders of this package that a game needs
DATA = (".yaml", ".json")


def write_play_page(folder: Path, header: Header, task: int | None, seed: int, again: str, pyodide: Path | None = None) -> int:
    """Write the page's folder.

    Args:
        folder: where to; made if it is missing.
        header: world that is played.
        task: number of the task within the split; None for another one each day.
        seed: of the world.
        again: command that plays this world, without its task.
        pyodide: folder of a Pyodide release, of which the page's part is copied; by default the page loads it from the Pyodide
            project's servers.

    Returns:
        Bytes that the page loads, without Pyodide unless that is copied.
    """
    make_folder(folder, "--browser")
    wanted = [] if pyodide is None else pyodide_files(pyodide)  # before anything is written
    start = {
        "header": header.to_json(), "task": task, "seed": seed, "again": again,
        "pyodide": CDN if pyodide is None else "./pyodide/", "packages": COMPILED,
    }  # fmt: skip
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; worker-src 'self'; connect-src 'self' blob:"
    page = render("play.html", css=Markup(asset("page.css")), more_css=Markup(asset("play.css")), policy=policy)
    write_atomically(folder / "index.html", page)
    for name in ("play.js", "play-worker.js"):
        write_atomically(folder / name, asset(name) + "\n")
    write_atomically(folder / "start.json", json.dumps(start))
    write_atomically(folder / "world.zip", world_archive())
    if pyodide is not None:
        make_folder(folder / "pyodide", "--browser")
        for name in wanted:
            shutil.copyfile(pyodide / name, folder / "pyodide" / name)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def pyodide_files(release: Path) -> list[str]:
    """Names of the files of a Pyodide release that a game needs; raises DataError where one is missing."""
    files = list(CORE)
    if not (release / "pyodide-lock.json").is_file():
        raise DataError(release, "expected a folder of a Pyodide release, with pyodide-lock.json")
    packages = json.loads((release / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    waiting = list(COMPILED)
    for name in waiting:
        entry = packages[name.replace("_", "-")]
        files.append(entry["file_name"])
        waiting += [needed for needed in entry["depends"] if needed not in waiting]
    for name in files:
        if not (release / name).is_file():
            wanted = "expected the files of a full release, not of the core alone"
            raise DataError(release, f"{wanted}: {name} is missing")
    return files


def world_archive() -> bytes:
    """The zip of the Python files that a game runs: of this package and of those that need no compiler."""
    store = io.BytesIO()
    with zipfile.ZipFile(store, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(file: Path, base: Path) -> None:
            # without its date, so that equal files make equal bytes
            entry = zipfile.ZipInfo(file.relative_to(base).as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())

        package = Path(__file__).parents[2]
        for file in [package / "__init__.py", package / "experiments" / "__init__.py"]:
            add(file, package.parent)
        for folder in OURS:
            for file in sorted((package / folder).rglob("*")):
                if file.suffix == ".py" or (file.suffix in DATA and folder in ("simulators", "envs")):
                    add(file, package.parent)
        for name in PURE:
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.origin is not None
            origin = Path(spec.origin)
            files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
            base = origin.parent.parent if origin.name == "__init__.py" else origin.parent
            for file in files:
                add(file, base)
    return store.getvalue()
