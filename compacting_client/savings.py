"""What a request cost, and what was saved on it."""

from __future__ import annotations

from typing import NamedTuple

from compacting_client.formats.base import Usage

__all__ = ["Savings", "SummaryUsage", "dollars", "line", "spent", "summarised"]


class SummaryUsage(NamedTuple):
    """What a summary took: the model and the tokens that it read and wrote, as far as they are known, and dollars by `genai-prices`."""

    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    duration_ms: float
    cost: float | None


def spent(model: str | None, read: int | None, written: int | None, duration_ms: float) -> SummaryUsage:
    """With what it cost, where that is known."""
    cost = None
    if model is not None and read is not None:
        cost, _ = dollars(model, Usage(read, 0, written or 0), 0)
    return SummaryUsage(model, read, written, duration_ms, cost)


class Savings(NamedTuple):
    """What a request did not cost.

    ``not_sent``   tokens that the caller wrote and that did not leave
    ``unchanged``  tokens of the prompt that are the same as at the start of the request before in this conversation, which is what a prompt
                   cache can serve; None where no such request is known
    ``cached``     tokens that the provider says it read from its cache; None where it said nothing
    ``cost``       dollars for the request, by `genai-prices` (the extra ``prices``); None without it, for an unknown model, without usage.
                   What a provider takes for writing its cache is not in it
    ``saved``      dollars that the tokens not sent would have cost as uncached input; None likewise
    """

    not_sent: float
    unchanged: float | None
    cached: int | None
    cost: float | None
    saved: float | None


def dollars(model: str, usage: Usage, not_sent: float) -> tuple[float, float] | tuple[None, None]:
    """What a request of this usage cost, and what it would have cost more; (None, None) where no price is known.  No network."""
    try:
        from genai_prices import Usage as Priced
        from genai_prices import calc_price
    except ImportError:
        return None, None

    def price(more: int) -> float:
        tokens = Priced(
            input_tokens=usage.input_tokens + more,
            cache_read_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
        )
        return float(calc_price(tokens, model).total_price)

    try:
        cost = price(0)
        return cost, price(round(not_sent)) - cost
    except (LookupError, ValueError):  # an unknown model; a usage that its prices do not add up with
        return None, None


def line(savings: Savings, sent: float) -> str | None:
    """The figures in one line; None where there is nothing to say."""
    said: list[str] = []
    if savings.not_sent > 0:
        said.append(f"{savings.not_sent} tokens not sent" + _in_dollars(savings.saved))
    if savings.unchanged:
        said.append(f"{savings.unchanged} of {sent} begin as the request before did")
    if savings.cached:
        said.append(f"{savings.cached} read from the provider's cache")
    if savings.cost is not None and said:
        said.append(f"cost {_money(savings.cost)}")
    return "; ".join(said) or None


def summarised(usage: SummaryUsage | None) -> str | None:
    """What a summary took, in one line; None where no model told it."""
    if usage is None or usage.input_tokens is None:
        return None
    cost = _in_dollars(usage.cost)
    return f"summary by {usage.model}: {usage.input_tokens} tokens read, {usage.output_tokens or 0} written{cost}"


def _in_dollars(amount: float | None) -> str:
    return "" if amount is None else f" ({_money(amount)})"


def _money(amount: float) -> str:
    return f"${amount:.4f}" if amount >= 0.00005 or amount == 0 else "under $0.0001"
