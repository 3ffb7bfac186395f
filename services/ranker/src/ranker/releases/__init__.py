"""Releases of the kernel archive: what the log says of kernels, as Parquet files for everybody."""
