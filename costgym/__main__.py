"""`python -m costgym` and the `costgym` command."""

from costgym.cli import main

if __name__ == "__main__":
    main()
