"""What is true of every recovery, for any history, policy and window, under Hypothesis (DESIGN 3)."""

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import Chain, DropOldest, Policy
from tests.driving import leave, requests_of, session, size
from tests.policies.test_policy_invariants import both, check, policies
from tests.recovery.answers import CHAT, CLAUDE, GEMINI
from tests.strategies import SHAPES, chats

WORDS = {
    CHAT: "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens.",
    CLAUDE: "prompt is too long: {tokens} tokens > {window} maximum",
    GEMINI: "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).",
}
by_window = st.sampled_from(
    [DropOldest(), DropOldest(0.8), DropOldest(keep_head=0, keep_tail=0), DropOldest(target=1.0)]
)
any_policy = st.one_of(by_window, policies, st.builds(Chain, policies, by_window))
common = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Refused(Exception):
    """An SDK's error of status 400."""

    status_code = 400

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.body = {"message": words}


class Model:
    """A provider that makes so many tokens of a counted one, and refuses what is above its window."""

    def __init__(self, api: str, window: int, density: float) -> None:
        self.api, self.window, self.density = api, window, density
        self.asked: list[Any] = []

    def tokens(self, body: Any) -> int:
        """Of a body."""
        return int(size(body) * self.density) + 1

    def __call__(self, body: Any) -> None:
        self.asked.append(copy.deepcopy(body))
        if (tokens := self.tokens(body)) > self.window:
            raise Refused(WORDS[self.api].format(tokens=tokens, window=self.window))


@both
@common
@given(
    history=chats(),
    policy=any_policy,
    window=st.integers(40, 1_500),
    density=st.sampled_from([0.5, 1.0, 1.7]),
    named=st.booleans(),
)
def test_a_growing_history_leaves_sound_or_ends_in_the_providers_error(
    shape: str, history: list, policy: Policy, window: int, density: float, named: bool
) -> None:
    """At most one more request each time, and none once the window is known; what is accepted is sound and accounted for.

    (Where a part is reserved for the answer, what is above the budget may still be accepted, so it is tried.)
    """
    wire, to_body = SHAPES[shape]
    windows = {"*": int(window / density)} if named else None
    state, model, taught = session(policy, windows=windows), Model(wire.API, window, density), False
    for begun in requests_of(history):
        body = to_body(begun)
        before, known = copy.deepcopy(body), len(model.asked)
        try:
            sent, report = leave(state, wire, body, model)
        except Refused as refusal:
            asked = model.asked[known:]
            assert len(asked) <= 2
            assert all(model.tokens(each) > window for each in asked)
            assert [size(each) for each in asked] == sorted({size(each) for each in asked}, reverse=True)
            noted = getattr(refusal, "__notes__", [])
            assert len(noted) == 1
            taught = True
            continue
        finally:
            assert body == before
        check(wire, body, sent, report)
        assert model.tokens(sent) <= window
        assert len(model.asked) - known <= (1 if taught and not wire.reserved(body) else 2)
        taught = taught or len(model.asked) - known == 2
