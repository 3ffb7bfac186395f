"""Runs the command line, as `python -m warpboard`."""

from warpboard.entry import main

if __name__ == "__main__":
    main()
