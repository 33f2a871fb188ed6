"""Run the command line as `python -m rooflens`."""

from rooflens.harness.cli import main

if __name__ == "__main__":
    main()
