"""What a test has go wrong: single answers by operationId, or all of Discord at once."""

from dataclasses import dataclass, field, replace

from discord_sim.errors import ApiError
from discord_sim.ratelimits import VIA, limited

ANY = "*"


@dataclass
class _Planned:
    operation: str
    error: ApiError
    left: int


@dataclass
class Faults:
    """The answers that come instead of the right ones; `is_down` is an outage of everything."""

    is_down: bool = False
    _planned: list[_Planned] = field(default_factory=list)
    _lost: list[str] = field(default_factory=list)

    def fail(
        self, operation: str, status: int = 500, code: int = 0, message: str = "", times: int = 1
    ) -> None:
        """Answer an operation (`*` is any) with an error, so many times."""
        said = message or ("Internal Server Error" if status >= 500 else "injected")
        error = ApiError(status, code, said, headers=dict(VIA), is_injected=True)
        self._planned.append(_Planned(operation, error, times))

    def limit(self, operation: str, retry_s: float, scope: str = "shared") -> None:
        """Answer an operation once with 429; the scope is user, shared or global."""
        error = replace(limited(retry_s, scope=scope), is_injected=True)
        self._planned.append(_Planned(operation, error, 1))

    def lose(self, operation: str, times: int = 1) -> None:
        """Do an operation and cut the line before the answer, so often: who asked cannot know."""
        self._lost += [operation] * times

    def takes_answer(self, operation: str) -> bool:
        """Whether the answer to an operation is lost."""
        for one in (operation, ANY):
            if one in self._lost:
                self._lost.remove(one)
                return True
        return False

    def strike(self, operation: str) -> None:
        """Raise what is planned for an operation, if anything. Errors: ApiError."""
        if self.is_down:
            raise ApiError(503, 0, "Service Unavailable", headers=dict(VIA), is_injected=True)
        for one in self._planned:
            if one.operation in (ANY, operation):
                one.left -= 1
                if one.left == 0:
                    self._planned.remove(one)
                raise one.error
