"""The command line."""

import sys


def main() -> None:
    """Run the command `costgym`; Ctrl-C while its modules are imported ends it as it does afterwards."""
    try:
        from costgym.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
