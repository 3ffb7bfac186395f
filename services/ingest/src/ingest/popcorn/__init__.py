"""The API of the public client popcorn-cli: its words in, ours out, and back."""
