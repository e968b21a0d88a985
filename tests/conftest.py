"""Lets test files import the helpers that lie beside them (`worlds`, `shared_data`), and keeps property tests off the clock."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# A busy machine makes an example slow, not wrong.
settings.register_profile("costgym", deadline=None)
settings.load_profile("costgym")
