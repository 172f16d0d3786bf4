"""Two ready-made policies that also say something to the model: text of theirs is added to the system prompt of every request.

They need no framework and no second call.  Neither makes a model more able; docs/ledger.md says when they help.
"""

from __future__ import annotations

from typing import Any

from compacting_client.errors import ConfigError
from compacting_client.policies.chain import Chain
from compacting_client.policies.instruction import Instruction
from compacting_client.policies.ledger import Ledger

__all__ = ["managed", "verify"]

_MANAGED = (
    "Gather what you need by calling tools, then answer. Results of your earlier calls may be listed after the request, in a record of tool "
    "results. Consult that record before you call a tool, and do not fetch again what it holds, unless you are waiting for something to change, "
    "such as the status of a job, or it says that a part was cut or is not shown."
)
_VERIFY = (
    "Work in one reply, in four steps. Plan: restate the task and outline how you will solve it. Solve: carry it out, showing each computation. "
    "Check: verify the result in another way or against each condition of the task, and correct what does not hold. Answer: give the final answer."
)


def managed(**options: Any) -> Chain:
    """For deep tool loops: `Ledger` with scope "ledger", and the standing instruction to consult it and not to fetch again what it holds.

    ``options``: those of `Ledger`, its `scope` aside.  Raises ConfigError for one that it does not have, and for one out of range.
    """
    try:
        ledger = Ledger("ledger", **options)
    except TypeError as error:
        raise ConfigError(f"managed() takes the options of Ledger but scope: {error}") from None
    return Chain(Instruction(_MANAGED), ledger)


def verify() -> Chain:
    """For one question that is easy to get wrong: the full history, and the instruction to plan, solve, check and answer in one reply."""
    return Chain(Instruction(_VERIFY), Ledger("full"))
