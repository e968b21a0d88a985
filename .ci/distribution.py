"""Build the source archive and the wheel, and check that each holds the whole package and works on its own.

Each is installed with its dependencies into an empty environment outside the checkout, its files are compared with those that
git tracks, and the quick leaderboard runs there. A fresh clone is installed for editing, and its imports are resolved.

    python .ci/distribution.py build/dist
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
OWN = tuple(f'Import "{name}' for name in (".", "costgym", "tests", "docs"))


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command; what it prints, or its errors and the end."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def expected_files() -> set[str]:
    """The package's files as an installation has them: those that git tracks."""
    return set(filter(None, run("git", "ls-files", "-z", "costgym").split("\0")))


def install(folder: Path, *arguments: object) -> Path:
    """Make an empty environment, install into it what pip's arguments say, and return its Python."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
    run(*pip, *arguments)
    return python


def check_archive(archive: Path, folder: Path) -> None:
    """Install an archive, compare its files with those that git tracks, and play the quick suite."""
    python = install(folder, archive)
    where = "import costgym, json, pathlib; root = pathlib.Path(costgym.__file__).parent; "
    names = "[f.relative_to(root.parent).as_posix() for f in root.rglob('*') if f.is_file() and f.suffix != '.pyc']"
    installed = set(json.loads(run(python, "-c", f"{where}print(json.dumps({names}))", cwd=folder)))
    if missing := sorted(expected_files() - installed):
        sys.exit(f"{archive.name} lacks {len(missing)} files that git tracks: {', '.join(missing[:20])}")
    if extra := sorted(installed - expected_files()):
        sys.exit(f"{archive.name} has {len(extra)} files that git does not track: {', '.join(extra[:20])}")
    run(
        python,
        "-m",
        "costgym",
        "leaderboard",
        "--suite",
        "quick",
        "--seed",
        "0",
        "--out",
        folder / "board",
        "--quiet",
        cwd=folder,
    )
    rows = json.loads((folder / "board" / "leaderboard.json").read_text(encoding="utf-8"))["rows"]
    print(f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB, {len(installed)} files, a leaderboard of {len(rows)} rows")


def check_clone(folder: Path) -> None:
    """Clone the last commit, install it for editing, and have pyright resolve every import of the project's own modules."""
    clone = folder / "clone"
    run("git", "clone", "--quiet", ROOT, clone)
    python = install(folder, "--editable", clone)
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", str(python), "--outputjson"]
    report = json.loads(subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False).stdout)
    unresolved = [found["message"] for found in report["generalDiagnostics"] if found.get("rule") == "reportMissingImports"]
    if own := [message for message in unresolved if message.startswith(OWN)]:
        sys.exit(f"{len(own)} imports do not resolve in a fresh clone: {'; '.join(own[:5])}")
    files = report["summary"]["filesAnalyzed"]
    print(f"clone: every own import of {files} files resolves; {len(unresolved)} are of packages that extras would bring")


def main(target: Path) -> None:
    for old in [*target.glob("*.whl"), *target.glob("*.tar.gz")]:
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", target, ROOT)
    checks = [(check_archive, (archive.resolve(),)) for archive in [*target.glob("*.tar.gz"), *target.glob("*.whl")]]
    for check, arguments in [*checks, (check_clone, ())]:
        with tempfile.TemporaryDirectory() as folder:
            check(*arguments, Path(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
