"""What this machine can compile and run, how it is asked to, and what is kept of it."""
