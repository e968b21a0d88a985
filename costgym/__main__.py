"""`python -m costgym` and the `costgym` command."""

from .cli import main

if __name__ == "__main__":
    main()
