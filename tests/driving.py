"""Drives the way of a request without an SDK: what the bindings do, with a list in the place of the network."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compacting_client import DropOldest, Policy, memory
from compacting_client.core.tokens import estimate
from compacting_client.formats.base import Format
from compacting_client.lifecycle import exchange
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import run
from tests.shared import judge

Body = dict[str, Any]


def session(policy: Policy | None, **settings: Any) -> Session:
    """A session as `compacting()` makes one; strict, so that no failure of ours is hidden."""
    settings = {"strict": True, "memory": memory.InProcess(), **settings}
    return Session(Settings(policy=policy, is_async=False, **settings))


def leave(
    state: Session, wire: Format, body: Mapping[str, Any], answer: Callable[[Any], Any] = lambda _: None
) -> tuple[Any, Report]:
    """The body that leaves for `body`, and the report; `answer(sent)` stands for the provider, and may raise its error."""
    sent: list[Any] = []

    def send(leaving: Any) -> Any:
        sent.append(leaving)
        return answer(leaving)

    run(exchange(state, wire, body), state, send, lambda _response, _report: None)
    report = state.last_report()
    assert report is not None
    return sent[-1], report


def requests_of(history: Sequence[Any]) -> Iterator[Any]:
    """The histories that an application sends: each one that the assistant answers, and the whole of it."""
    for n in range(1, len(history) + 1):
        if n == len(history) or history[n]["role"] == "assistant":
            yield history[:n]


def history_of(body: Body) -> Any:
    """The field of a body that holds its history."""
    return body["contents"] if "contents" in body else body["messages"]


def size(body: Body) -> int:
    """Tokens of a body by the default estimate."""
    total = sum(map(estimate, history_of(body)))
    total += sum(estimate(body[name]) for name in ("tools", "functions") if body.get(name))
    system = body.get("system") or (body.get("systemInstruction") or {}).get("parts") or ""
    text = system if isinstance(system, str) else "\n".join(block["text"] for block in system)
    return total + (estimate({"role": "system", "content": text}) if text else 0)


def share_of(body: Body, share: float, **options: Any) -> DropOldest:
    """DropOldest with a budget of this share of the body's size."""
    return DropOldest(max(1, int(size(body) * share)), **options)


def found(api: str, body: Body, original: Body, **how: Any) -> Counter[str]:
    """The rules that the judge finds broken in `body`, beyond those that `original` breaks."""
    check = judge().check
    broken = Counter(each.rule for each in check(api, body, original=original, **how))
    how.pop("history", None)
    return broken - Counter(each.rule for each in check(api, original, original=original, **how))


def question_of(body: Body) -> Any:
    """The last real user message of a body; None where it has none."""
    for message in reversed(history_of(body)):
        content = (message.get("content") or message.get("parts")) if isinstance(message, dict) else None
        blocks = content if isinstance(content, list) else []
        results = bool(blocks) and all(isinstance(each, dict) and _is_result(each) for each in blocks)
        if isinstance(message, dict) and message.get("role") == "user" and not results:
            return message
    return None


def _is_result(block: Body) -> bool:
    return block.get("type") == "tool_result" or "functionResponse" in block or "function_response" in block
