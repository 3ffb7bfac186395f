"""What people may write of themselves, and how they write it; a release has none of it."""

PLANTED = {
    "name": "adazq",
    "identity": "12345678-1234-1234-1234-123456789abc",
    "number": "123456789012345678",
    "address": "adazq@lab.example.org",
    "host": "https://lab.example.org/adazq",
    "ip": "10.1.2.3",
    "mention": "@adazq",
    "discord": "<@123456789012345678>",
    "path": "/home/adazq/lab/kernel.py",
    "windows": "C:\\Users\\adazq\\lab.cu",
    "token": "wb_" + "a1" * 21,
    "github": "ghp_" + "a1" * 18,
}


def planted_texts(found: dict[str, str]) -> list[str]:
    """How people write it."""
    return [
        f"by {found['name']}",
        f"by {found['name'].upper()}, {found['address']}",
        f"see {found['host']} or {found['path']}:12",
        f"{found['mention']} {found['discord']} {found['number']}",
        f"id={found['identity']} at {found['ip']}",
        f"token: {found['token']} {found['github']}",
        f"from {found['windows'].replace(chr(92), chr(92) * 2)}",
        f"{found['name']}_kernel-v2",
    ]
