"""The consent a problem requires before submitting: read, give and withdraw."""
