"""Print and write the report of a benchmark."""

import datetime
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any


def write_report(report: Mapping[str, Any], path: Path | None, packages: tuple[str, ...] = ()) -> None:
    """Print a report as JSON, and write it where a path is given.

    Args:
        report: the figures. The date, the machine and the versions of `packages` are added.
        path: a JSON file, or None to print only.
        packages: distributions whose versions are added.
    """
    whole = {
        **report,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        **({"versions": {package: version(package) for package in packages}} if packages else {}),
    }
    text = json.dumps(whole, indent=1)
    print(text)
    if path is not None:
        path.write_text(text + "\n", encoding="utf-8")
