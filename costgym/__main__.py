"""`python -m costgym`."""

from costgym.cli import main

if __name__ == "__main__":
    main()
