"""`python -m costgym` and the `costgym` command."""

from __future__ import annotations


def main() -> None:
    from costgym.cli import app

    app()


if __name__ == "__main__":
    main()
