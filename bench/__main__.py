"""`python -m bench`: every benchmark, each printing ratios of its own run."""

from bench import turnaround

if __name__ == "__main__":
    turnaround.main()
