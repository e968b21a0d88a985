"""Lets test files import the helpers that lie beside them (`worlds`, `shared_data`), and keeps property tests off the clock."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# A busy machine makes an example slow, not wrong; the same code meets the same examples.
settings.register_profile("costgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("costgym")
