"""Problems in their public formats, and their compilation to one immutable version."""
