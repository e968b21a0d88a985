"""Lets test files import the helpers that lie beside them (`worlds`, `shared_data`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
