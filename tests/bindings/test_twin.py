"""What `compacting()` gives back is the client itself to all who look at it, and the original knows nothing of it."""

import copy
import functools
import gc
import inspect
import pickle
import weakref
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import DropOldest, compacting, control, is_compacting
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import (
    POLICY,
    chat_request,
    claude_request,
    history,
    is_compacted,
    params,
    report_of,
    sent,
)

CLIENTS = {
    "OpenAI": lambda: openai.OpenAI(api_key="test"),
    "AsyncOpenAI": lambda: openai.AsyncOpenAI(api_key="test"),
    "AzureOpenAI": lambda: openai.AzureOpenAI(api_key="test", azure_endpoint="http://127.0.0.1", api_version="1"),
    "Anthropic": lambda: anthropic.Anthropic(api_key="test"),
    "AsyncAnthropic": lambda: anthropic.AsyncAnthropic(api_key="test"),
}
every_client = pytest.mark.parametrize("make", params(CLIENTS))


@every_client
def test_it_is_a_client_of_the_same_type(make: Any) -> None:
    """`type() is`, `isinstance` and the class are those of the original, which is another object."""
    plain = make()
    client = compacting(plain, POLICY)
    assert client is not plain
    assert type(client) is type(plain)
    assert isinstance(client, type(plain))
    assert is_compacting(client)
    assert not is_compacting(plain)


def test_the_original_is_untouched(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Neither wrapping nor requests change what the original, its class or its resources hold; it still sends everything."""
    for plain, call, whole in (
        (chat, lambda c: c.chat.completions.create(**chat_request()), history(system=True)),
        (claude, lambda c: c.messages.create(**claude_request()), history()),
    ):
        call(plain)  # what the SDK keeps once a resource was used
        before, of_class = dict(vars(plain)), dict(vars(type(plain)))
        call(compacting(plain, POLICY))
        assert len(sent(provider)) < len(whole)
        assert vars(plain) == before
        assert dict(vars(type(plain))) == of_class
        call(plain)
        assert sent(provider) == whole


def test_the_connection_pool_is_shared(chat: openai.OpenAI) -> None:
    """No second pool is opened, and the wrapped client dying leaves the original's open."""
    client = compacting(chat, POLICY)
    assert client._client is chat._client
    client.chat.completions.create(**chat_request())
    del client
    gc.collect()
    assert not chat.is_closed()
    chat.chat.completions.create(**chat_request())


def test_the_wrapped_client_outlives_the_original(provider: Provider) -> None:
    """`compacting(OpenAI())` in one expression keeps the pool open."""
    client = compacting(openai.OpenAI(base_url=provider.openai_url, api_key="test"), POLICY)
    gc.collect()
    with client:
        client.chat.completions.create(**chat_request())
    assert is_compacted(sent(provider), history(system=True))


def test_resources_belong_to_the_twin(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Those that the original had made before are made anew, whatever they hang on."""
    assert chat.chat.completions._client is chat
    assert chat.with_raw_response.chat is not None
    assert claude.beta.messages._client is claude
    wrapped = compacting(chat, POLICY)
    assert wrapped.chat.completions._client is wrapped
    assert wrapped.with_raw_response is not chat.with_raw_response
    assert wrapped.with_streaming_response.chat.completions is not None
    also = compacting(claude, POLICY)
    assert also.beta.messages._client is also


def test_what_is_set_on_a_wrapped_client_stays_there(chat: openai.OpenAI) -> None:
    """An attribute set on it is not set on the original, and wrapping it again keeps it."""
    client = compacting(chat, POLICY)
    client.timeout = 7
    client.mine = "yes"  # type: ignore[attr-defined]
    assert chat.timeout != 7
    for again in (compacting(client, 1000), control(client).with_policy(1000)):
        assert (again.timeout, again.mine) == (7, "yes")  # type: ignore[attr-defined]


def test_wrapping_twice_replaces_every_option(provider: Provider, chat: openai.OpenAI) -> None:
    """The second policy, memory and callbacks hold alone: one decision and one set of events."""
    first, second = EventCapture(), EventCapture()
    inner = compacting(chat, 1, strict=True, pin=lambda _: True, on_event=first, on_report=first)
    client = compacting(inner, DropOldest(300), on_event=second)
    response = client.chat.completions.create(**chat_request())
    assert first.events == []
    assert second.names.count("compaction.applied") == 1
    assert control(client).policy == DropOldest(300)
    assert is_compacted(sent(provider), history(system=True))
    assert report_of(client, response).policy == "DropOldest"
    assert control(inner).report_for(response) is None
    assert control(inner).last_report is None
    off = compacting(client, False)
    off.chat.completions.create(**chat_request())
    assert sent(provider) == history(system=True)


def test_wrapping_a_derived_client_keeps_what_it_was_derived_with(provider: Provider, chat: openai.OpenAI) -> None:
    """`compacting(client.with_options(...))` has the options of the derived client."""
    derived = compacting(chat, 1).with_options(default_headers={"x-mine": "yes"})
    compacting(derived, POLICY).chat.completions.create(**chat_request())
    assert provider.requests[0].headers["x-mine"] == "yes"
    assert is_compacted(sent(provider), history(system=True))


class Mine(openai.OpenAI):
    """A user's own client, with a constructor of its own and a resource-like attribute that is none."""

    def __init__(self, provider: Provider, *, note: str) -> None:
        super().__init__(base_url=provider.openai_url, api_key="test")
        self.note = note
        self.helper = Helper(self, note)


class Helper:
    def __init__(self, client: Any, note: str) -> None:
        self._client, self.note = client, note


def test_a_users_subclass(provider: Provider) -> None:
    """Its constructor is not run again, its attributes are there, its overridden methods are called."""
    with Mine(provider, note="hello") as plain:
        client = compacting(plain, POLICY)
        assert type(client) is Mine
        assert (client.note, client.helper.note) == ("hello", "hello")
        client.chat.completions.create(**chat_request())
        with pytest.raises(TypeError):  # as the SDK's own copy() does with such a class
            plain.with_options(timeout=3)
        with pytest.raises(TypeError):
            client.with_options(timeout=3)
    assert is_compacted(sent(provider), history(system=True))


def test_a_subclass_with_its_own_request(provider: Provider) -> None:
    """A `request` overridden in a class runs behind the wrapper, as the SDK's own would."""
    seen: list[int] = []

    class Counting(openai.OpenAI):
        def request(self, cast_to: Any, options: Any, **more: Any) -> Any:
            seen.append(len(options.json_data["messages"]))
            return super().request(cast_to, options, **more)

    with Counting(base_url=provider.openai_url, api_key="test") as plain:
        compacting(plain, POLICY).chat.completions.create(**chat_request())
    assert seen == [len(sent(provider))]
    assert seen[0] < len(history(system=True))


def observed(method: Any, seen: list[int]) -> Any:
    """A method as an observer patches it: it notes how many messages it sees."""

    @functools.wraps(method)
    def request(*args: Any, **more: Any) -> Any:
        options = next(each for each in args if hasattr(each, "json_data"))
        seen.append(len(options.json_data["messages"]))
        return method(*args, **more)

    return request


def test_an_observers_patch_of_the_original_stays_innermost(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, chat: openai.OpenAI
) -> None:
    """An own `request` on the original sees what leaves: after wrapping, after wrapping twice."""
    seen: list[int] = []
    monkeypatch.setattr(chat, "request", observed(chat.request, seen))
    client = compacting(chat, POLICY)
    client.chat.completions.create(**chat_request())
    compacting(client, POLICY).chat.completions.create(**chat_request())
    assert seen == [len(sent(provider, 0)), len(sent(provider, 1))]
    assert seen[0] < len(history(system=True))


def test_a_patch_of_the_class_counts_though_it_comes_later(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, chat: openai.OpenAI
) -> None:
    """The class is asked at each request, so an observer that patches it after wrapping sees what leaves."""
    client = compacting(chat, POLICY)
    seen: list[int] = []
    monkeypatch.setattr(openai.OpenAI, "request", observed(openai.OpenAI.request, seen))
    client.chat.completions.create(**chat_request())
    assert seen == [len(sent(provider))]
    assert seen[0] < len(history(system=True))


def test_a_patch_of_the_wrapped_client_sees_what_the_caller_wrote(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, chat: openai.OpenAI
) -> None:
    """An observer outside the wrapper records the whole history; what leaves is compacted all the same."""
    client = compacting(chat, POLICY)
    seen: list[int] = []
    monkeypatch.setattr(client, "request", observed(client.request, seen))
    client.chat.completions.create(**chat_request())
    assert seen == [len(history(system=True))]
    assert is_compacted(sent(provider), history(system=True))


def test_copy_copy(provider: Provider, chat: openai.OpenAI) -> None:
    """A shallow copy of a wrapped client is wrapped, and compacts once."""
    events = EventCapture()
    copied = copy.copy(compacting(chat, POLICY, on_event=events))
    assert is_compacting(copied)
    copied.chat.completions.create(**chat_request())
    assert events.names.count("compaction.applied") == 1
    assert is_compacted(sent(provider), history(system=True))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # from half-made copies of the pool
@every_client
@pytest.mark.parametrize("operation", [pickle.dumps, copy.deepcopy])
def test_what_cannot_be_done_with_a_client_cannot_be_done_with_a_wrapped_one(make: Any, operation: Any) -> None:
    """Pickling and deep copying fail as they do with the original."""
    plain = make()
    for client in (plain, compacting(plain, POLICY)):
        with pytest.raises(TypeError, match=r"cannot pickle '_thread.RLock' object"):
            operation(client)
    gc.collect()


@every_client
def test_it_is_hashable_and_weakly_referenceable(make: Any) -> None:
    """It serves as a key of caches and of weak dictionaries, and is told apart from the original."""
    plain = make()
    client = compacting(plain, POLICY)
    calls: list[Any] = []
    cached = functools.lru_cache(calls.append)
    assert [cached(client), cached(client), cached(plain)] == [None] * 3
    assert calls == [client, plain]
    assert weakref.WeakKeyDictionary({client: 1})[client] == 1
    assert weakref.ref(client)() is client
    assert client != plain


def test_a_dropped_client_is_collected(chat: openai.OpenAI) -> None:
    """Nothing global holds a wrapped client, its session or its reports."""
    client = compacting(chat, POLICY)
    response = client.chat.completions.create(**chat_request())
    references: list[Any] = [weakref.ref(client), weakref.ref(report_of(client, response))]
    del client, response
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_report_goes_with_its_response(chat: openai.OpenAI) -> None:
    """A report, which holds the history, is not kept until the garbage collector runs: dropping the response is enough."""
    client = compacting(chat, POLICY)
    first = client.chat.completions.create(**chat_request())
    report = weakref.ref(report_of(client, first))
    second = client.chat.completions.create(**chat_request())  # the last report of this thread is another one now
    gc.disable()
    try:
        del first
        assert report() is None
        assert report_of(client, second) is control(client).last_report
    finally:
        gc.enable()


def test_as_a_context_manager(provider: Provider) -> None:
    """`with` gives the wrapped client itself, and closing it closes the shared pool, as with a copy of the SDK's own."""
    plain = openai.OpenAI(base_url=provider.openai_url, api_key="test")
    client = compacting(plain, POLICY)
    with client as entered:
        assert entered is client
        entered.chat.completions.create(**chat_request())
    assert client.is_closed()
    assert plain.is_closed()


async def test_as_an_async_context_manager(provider: Provider) -> None:
    """The same with `async with`."""
    client = compacting(openai.AsyncOpenAI(base_url=provider.openai_url, api_key="test"), POLICY)
    async with client as entered:
        assert entered is client
        await entered.chat.completions.create(**chat_request())
    assert client.is_closed()
    assert is_compacted(sent(provider), history(system=True))


METHODS = {
    "request": lambda c: c.request,
    "post": lambda c: c.post,
    "copy": lambda c: c.copy,
    "with_options": lambda c: c.with_options,
    "models.list": lambda c: c.models.list,
    "create": lambda c: c.chat.completions.create if hasattr(c, "chat") else c.messages.create,
    "stream": lambda c: c.chat.completions.stream if hasattr(c, "chat") else c.messages.stream,
    "parse": lambda c: c.chat.completions.parse if hasattr(c, "chat") else c.messages.parse,
}


@every_client
@pytest.mark.parametrize("method", params(METHODS))
def test_methods_look_like_the_sdks_own(make: Any, method: Any) -> None:
    """Signature, name, docstring and being a coroutine function or not are the same."""
    plain = make()
    original, wrapped = method(plain), method(compacting(plain, POLICY))
    assert inspect.signature(wrapped) == inspect.signature(original)
    assert inspect.iscoroutinefunction(wrapped) == inspect.iscoroutinefunction(original)
    assert (wrapped.__name__, wrapped.__doc__) == (original.__name__, original.__doc__)


def test_the_module_level_client_can_be_wrapped(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """`openai` as a configured module keeps a client of its own, which is wrapped like any other."""
    monkeypatch.setattr(openai, "api_key", "test")
    monkeypatch.setattr(openai, "base_url", f"{provider.openai_url}/")
    try:
        client = compacting(openai._load_client(), POLICY)
        client.chat.completions.create(**chat_request())
    finally:
        openai._reset_client()
    assert is_compacted(sent(provider), history(system=True))
