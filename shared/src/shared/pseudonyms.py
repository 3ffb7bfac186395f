"""Names for accounts in data sets that tell nothing about the account outside of the data set."""

import hashlib
import hmac
import secrets

KEY_BYTES = 32
# 80 bits: two of a million accounts have the same pseudonym with a chance of one in 10^12.
_LENGTH = 20


def new_pseudonym_key() -> bytes:
    """Return a key for a new data set. It is never exported: with it, accounts can be found."""
    return secrets.token_bytes(KEY_BYTES)


def pseudonym(key: bytes, account: str) -> str:
    """Return the name of an account in the data set that has this key.

    >>> pseudonym(bytes(32), "ada"), pseudonym(b"1" * 32, "ada")
    ('p-f511103a4f5f11256c03', 'p-7ac8e6ea8ad6b2ad2ea3')
    """
    return f"p-{hmac.digest(key, account.encode(), hashlib.sha256).hex()[:_LENGTH]}"
