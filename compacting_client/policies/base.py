"""What a policy is, for users and for the rest of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from compacting_client.core.conversation import Conversation
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.mending import asked, decided
from compacting_client.core.reuse import Known
from compacting_client.core.view import Choice, View
from compacting_client.core.window import Window
from compacting_client.errors import ConfigError
from compacting_client.validation import is_async

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Policy", "identity", "named"]


class Policy:
    """Decides what leaves.  For one of your own, write one method:

        class Recent(Policy):
            def trim(self, messages):           # or: async def atrim(self, messages), on async clients
                return messages if len(messages) < 40 else messages[-20:]

    It is called on every request, with what is left after the cut that is remembered: plain neutral messages (``role``, ``content``,
    ``tool_calls``, ``tool_call_id``, ``name``; the system prompt first), copies that it may change.  It returns a list of those that stay, in
    their order; a tool result with other, shorter content is sent shortened; a new user or assistant message of text is sent as text of the
    user.  Everything else is a PolicyError, and so is a larger history.  System messages, the last question, the newest exchange and what `pin`
    selects stay, whatever it returns; an exchange of which it returns only a part goes.  Two kept user messages may end up in a row, where
    it dropped the answer between them; strictly alternating chat templates refuse that.

    Its decisions are remembered for the settings that its `repr` shows (a dataclass shows them), else for the very object.

    Raises ConfigError when constructed with both methods, or with neither.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A policy that knows exactly one way to decide."""
        inside = cls.choose is not Policy.choose or cls.deciding is not Policy.deciding
        ways = [name for name in ("trim", "atrim") if callable(getattr(cls, name, None))]
        if len(ways) + inside != 1:
            have = f"it has {' and '.join([*ways, *(['choose'] if inside else [])])}" if ways else "it has neither"
            raise ConfigError(f"{cls.__qualname__} must have one method, trim(self, messages) or atrim: {have}")
        return super().__new__(cls)

    def triggered(self, view: View) -> bool:  # noqa: ARG002 - the signature of the policies that come with the package
        """Whether this history needs a decision.  Asked for every request, on what is left after the remembered cut."""
        return True

    def choose(self, view: View) -> Choice | None:
        """What to drop, once triggered; None where nothing can or should go."""
        raise NotImplementedError(view)

    def standing(self, view: View) -> Choice | None:  # noqa: ARG002 - as above
        """What it wants of every request, also where an edit of the history has to wait for the end of a loop; nothing for most."""
        return None

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """`choose`, or what `trim` or `atrim` makes of the messages, mended."""
        trim = self._trim()
        if trim is None:
            return self.choose(view)
        shown, copies = asked(view)
        answers = yield Ask("policy", trim, [list(copies)])
        return decided(view, shown, copies, answers[0])

    def known(self, conversation: Conversation) -> Generator[Effect, Any, Known]:  # noqa: ARG002 - as above
        """The results in a history that may answer the same call again; none, where the policy is not told so."""
        yield from ()  # a generator, as that of a policy which has to ask
        return {}

    def reuses(self, tool: str) -> bool:  # noqa: ARG002 - as above
        """Whether `known` would give results of this tool."""
        return False

    @property
    def is_async(self) -> bool:
        """Whether it can only be asked on an async client."""
        trim = self._trim()
        return trim is not None and (is_async(trim) or hasattr(self, "atrim"))

    @property
    def summary_models(self) -> tuple[str, ...]:
        """The models that it has summaries written by, where it names them."""
        return ()

    @property
    def budget(self) -> float | None:
        """The limit, in counted tokens, that the request is held against in the report; None where there is none."""
        return None

    @property
    def idle(self) -> str:
        """What the report says where it was not triggered."""
        return "below trigger"

    def sized(self, window: Callable[[], Window | None]) -> Policy:  # noqa: ARG002 - the signature of those that go by the window
        """The policy for one request of a model with this window, None where it is not known; the policy itself where it does not go by it.

        Its decisions are still remembered under the policy's own fingerprint: learning a window forgets nothing.
        """
        return self

    def rescue(self, dropping: Policy) -> Policy:
        """What brings a request below a limit that the provider named: `dropping`, or its like under this policy's own settings."""
        return dropping

    @property
    def fingerprint(self) -> str:
        """Tells its decisions apart from those of other policies and settings."""
        named = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"{named} {identity(self)}" if type(self).__repr__ is object.__repr__ else f"{named} {self!r}"

    @property
    def name(self) -> str:
        """What events and reports call it."""
        return type(self).__name__

    def _trim(self) -> Callable[[list[dict[str, Any]]], Any] | None:
        return getattr(self, "trim", None) or getattr(self, "atrim", None)


_identities: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def identity(value: Any) -> str:
    """A name for this very object, which no other object gets while the process lives: `id` alone is given again to later ones."""
    try:
        return _identities.setdefault(value, token_hex(8))
    except TypeError:  # neither hashable nor weakly referable: as long as it lives, its address is its own
        return f"{id(value):x}"


def named(function: Any) -> str:
    """A name for a function that other processes have for it too: that under which its module holds it; else its `identity`."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if isinstance(module, str) and isinstance(path, str):
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is function:
            return f"{module}.{path}"
    return identity(function)
