"""What the pages of a site are handed by its scripts."""

import json
import re
from pathlib import Path
from typing import Any


def data(path: Path) -> Any:
    """What a script hands over."""
    match = re.fullmatch(r'costgym\.put\("([\w-]+)",(.*)\);\n', path.read_text(encoding="ascii"), re.DOTALL)
    assert match is not None and match[1] == path.stem
    return json.loads(match[2])
