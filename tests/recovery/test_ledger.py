"""A ledger beside the provider's own limit: the oldest goes on top of what it decided, and the request stays sound."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.driving import leave, requests_of, session
from tests.policies.test_ledger_histories import alone, check
from tests.policies.test_policy_invariants import both
from tests.recovery.test_invariants import Model, Refused, common
from tests.strategies import SHAPES, chats


@both
@common
@given(history=chats(), policy=alone, window=st.integers(40, 1_500), density=st.sampled_from([0.5, 1.0, 1.7]))
def test_a_growing_loop_leaves_sound_or_ends_in_the_providers_error(
    shape: str, history: list, policy: Any, window: int, density: float
) -> None:
    """At most one more request each time; what is accepted is sound and accounted for, and the caller's data as it was."""
    wire, to_body = SHAPES[shape]
    state, model = session(policy), Model(wire.API, window, density)
    for begun in requests_of(history):
        body = to_body(begun)
        before, known = copy.deepcopy(body), len(model.asked)
        try:
            sent, report = leave(state, wire, body, model)
        except Refused:
            assert len(model.asked) - known <= 2
            continue
        finally:
            assert body == before
        check(wire, body, sent, report)
        assert model.tokens(sent) <= window
