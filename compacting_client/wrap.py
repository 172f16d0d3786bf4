"""The entry: `compacting(client)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from compacting_client.bindings import bind, bound, counts, is_async_client
from compacting_client.counters import BY_PROVIDER, TextEncoding
from compacting_client.errors import ConfigError
from compacting_client.events import ContentDropped, ContentReused, Event
from compacting_client.memory import Store
from compacting_client.policies import Policy
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.settings import Settings, memory_of, policy_of

__all__ = ["compacting", "is_compacting"]

ClientT = TypeVar("ClientT")


def compacting(
    client: ClientT,
    policy: Policy | Callable[[list[dict[str, Any]]], Any] | int | Literal[False] | None = None,
    *,
    counter: Callable[[dict[str, Any]], Any] | Literal["tiktoken", "provider"] | TextEncoding | None = None,
    memory: Store | None = None,
    memory_key: Callable[[dict[str, Any]], Any] | None = None,
    pin: Callable[[dict[str, Any]], Any] | None = None,
    windows: Mapping[str, int] | None = None,
    on_event: Callable[[Event], Any] | None = None,
    on_drop: Callable[[ContentDropped], Any] | None = None,
    on_reuse: Callable[[ContentReused], Any] | None = None,
    on_report: Callable[[Report], Any] | None = None,
    logger: Any = None,
    log_content: bool = False,
    recover: bool = True,
    on_unfit: Literal["send", "raise"] = "send",
    strict: bool = False,
) -> ClientT:
    """The same client, of the same type, whose requests leave with a history that fits the policy and that the provider accepts.

    ``client``      OpenAI, AsyncOpenAI, Anthropic, AsyncAnthropic, or one of their kin (Azure, Bedrock, Vertex), or a Google `genai.Client`
                    (or its `aio` alone, for async functions); it stays as it is, and shares its connection pool with
                    what is returned.  A wrapped client is wrapped anew: every option is replaced
    ``policy``      None: DropOldest(), which acts only when a request would not fit the model's window, as far as that is known, or the provider
                    says "too long"; DropOldest(60_000), or the number alone; KeepTurns(10); Chain(KeepTurns(10), DropOldest(60_000)); any function
                    from neutral messages to those that stay, as ``lambda messages: messages[-20:]`` (`Policy` says how); False: off, requests are
                    only reported
    ``counter``     in the place of the estimate: neutral message -> tokens (a number >= 0), the tools shown as one system message of their JSON;
                    "tiktoken", or an encoding of tiktoken; "provider": the provider's own counting call, made where the budget is near
    ``memory``      where cuts are remembered; None: memory.InProcess()
    ``memory_key``  neutral message -> str: what recognises a message, for applications that put changing text into them
    ``pin``         neutral message -> bool: whether the exchange that it belongs to is never dropped
    ``windows``     model -> tokens of input and answer together; ``*`` in a name stands for anything.  Else windows are learned from a provider's
                    "too long", or looked up in `genai-prices` where that is installed (nothing is asked over the network)
    ``on_event``, ``on_drop``, ``on_reuse``, ``on_report``   called with each event, ContentDropped, ContentReused, and with each report once its
                    request is over.  One that raises is logged and breaks nothing
    ``logger``      a structlog or stdlib logger; None: structlog if configured, else the stdlib logger "compacting_client", silent until configured
    ``log_content`` let logs and `as_dict()` carry the messages that left
    ``recover``     send once more, once, where a refusal can be helped: the oldest dropped after a "too long", signed thinking that is bound to
                    another conversation removed
    ``on_unfit``    "send" the best that could be done, or "raise" BudgetError
    ``strict``      raise PolicyError where a policy or a function of yours fails, in place of sending the caller's body

    Functions may be async on async clients.  Raises ConfigError for a wrong setting and UnsupportedClientError for what is no client.
    """
    is_async = is_async_client(client)
    if counter == BY_PROVIDER and not counts(client):
        raise ConfigError(
            f'counter="provider": the API of {type(client).__name__} has no call that counts a chat; leave it out (the estimate is '
            'calibrated by what the provider says it counted), or use counter="tiktoken"'
        )
    settings = Settings(
        policy=policy_of(policy),
        memory=memory_of(memory),
        is_async=is_async,
        counter=counter,
        memory_key=memory_key,
        pin=pin,
        windows=windows,
        on_event=on_event,
        on_drop=on_drop,
        on_reuse=on_reuse,
        on_report=on_report,
        logger=logger,
        log_content=log_content,
        recover=recover,
        on_unfit=on_unfit,
        strict=strict,
    )
    wrapped: ClientT = bind(client, Session(settings))
    return wrapped


def is_compacting(client: object) -> bool:
    """Whether `client` is what `compacting()` returned, or was derived from it."""
    return bound(client) is not None
