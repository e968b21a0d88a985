"""Settings of the tests, and which modules are searched for examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes an example slow, not wrong; the same code meets the same examples.
settings.register_profile("costgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("costgym")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules of the package without an example: to look for one, all of them would be imported."""
    if collection_path.suffix == ".py" and collection_path.is_relative_to(config.rootpath / "costgym"):
        return ">>> " not in collection_path.read_text(encoding="utf-8") or None
    return None
