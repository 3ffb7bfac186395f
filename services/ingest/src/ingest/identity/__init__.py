"""Who participants are, and what they may do.

Its parts, from the top; each imports only those below it:

- `login`: browser sessions, devices, CLI ids, passwords and OAuth, with their pages;
- `accounts`, `invites`, `preferences`: the commands, each with rules, a service and routes;
- `http`: authenticates requests;
- `access`: access rights, folded from the log into memory;
- `caller`, `bans`, `names`, `secrets`, `scopes`: the words that all of them use.
"""
