"""The bot: discord.py, and nothing that decides."""
