"""The build stage: what this machine can compile, the build cache, and the workers of a run."""
