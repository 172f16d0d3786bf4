"""The store in Redis, on a real server."""

import socket
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
import redis

from compacting_client import ConfigError, memory
from compacting_client.memory.serial import encoded, name_of
from tests.memory.servers import RedisServer
from tests.memory.workers import entry


def lengths(store: Any, key: str = "a") -> list[int]:
    """The entries of a conversation, by their lengths."""
    return [found.length for found, _ in store.recall(key)]


@pytest.fixture
def clock(server: RedisServer) -> Any:
    """`clock(seconds)`: so much time goes by for all entries: their ends, and those of their keys, come nearer."""

    def pass_by(seconds: int) -> None:
        for name in server.client.scan_iter():
            for field, value in server.client.hgetall(name).items():
                if field != "turn":
                    turn, end, rest = value.split(":", 2)
                    server.client.hset(name, field, f"{turn}:{int(end) - seconds * 1000}:{rest}")
            left = server.client.pttl(name)
            server.client.pexpire(name, left - seconds * 1000)

    return pass_by


def test_each_call_is_one_round_trip(server: RedisServer) -> None:
    """One command for each, once the server knows the scripts."""
    store = memory.Redis(server.url)
    calls: list[Any] = [
        lambda: store.recall("a"),
        lambda: store.remember("a", entry(1)),
        lambda: store.reuse("a", entry(1)),
        lambda: store.remember("a", entry(2), entry(1)),
        lambda: store.forget("a"),
    ]
    for call in calls:
        call()
    for call in calls:
        with server.client.monitor() as monitor:
            server.client.echo("from here")  # on a second connection, which says more when it is new
            call()
            server.client.echo("to here")
            asked = [each["command"] for each in _until(monitor.listen(), "to here") if each["client_type"] == "tcp"]
        assert len(asked[asked.index("ECHO from here") + 1 :]) == 1


def _until(heard: Iterator[Any], said: str) -> Iterator[Any]:
    """What a server is asked, until it is asked to say this."""
    return takewhile(lambda each: each["command"] != f"ECHO {said}", heard)


def test_an_entry_goes_after_its_last_use(server: RedisServer, clock: Any) -> None:
    """`ttl` seconds after it was remembered or used; a later use does not bring it back; keys go by themselves."""
    store = memory.Redis(server.url, ttl=10)
    store.remember("a", entry(1))
    store.remember("a", entry(2))
    clock(6)
    store.reuse("a", entry(1))
    assert 9_000 < server.client.pttl("compacting:a") <= 10_000
    clock(6)
    assert lengths(store) == [1]
    store.reuse("a", entry(2))
    assert lengths(store) == [1]
    store.remember("a", entry(3))
    assert server.client.hlen("compacting:a") == 3  # two entries and the turn
    clock(11)
    assert lengths(store) == []
    assert server.client.dbsize() == 0


def test_a_shorter_ttl_of_another_store_shortens_nothing(server: RedisServer) -> None:
    """Each entry has the end that its own store gave it."""
    memory.Redis(server.url, ttl=1000).remember("a", entry(1))
    memory.Redis(server.url, ttl=10).remember("a", entry(2))
    assert server.client.pttl("compacting:a") > 900_000


def test_namespaces_do_not_see_each_other(server: RedisServer) -> None:
    """Not even those whose names begin alike or look like patterns; all of one can be forgotten, also where there is much."""
    names = ["app", "app:two", "app*", "a[p]p", "a?p", "a\\p", "*"]
    stores = {name: memory.Redis(server.url, namespace=name) for name in names}
    for store in stores.values():
        store.remember("a", entry(1))
    server.client.set("other", "theirs")
    for name in names:
        stores[name].forget()
        assert [each for each in names if lengths(stores[each])] == names[names.index(name) + 1 :]
    assert server.client.keys() == ["other"]
    for number in range(1200):
        server.client.hset(f"app:{number}", "turn", 1)
    stores["app"].forget()
    assert server.client.keys() == ["other"]


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}, {"encoding": "latin-1"}], ids=str)
def test_a_client_of_your_own_will_do(server: RedisServer, options: dict[str, Any]) -> None:
    """Whatever it was told about encodings and protocols; it is not closed."""
    with redis.Redis(port=server.port, **options) as client:
        memory.Redis(client).remember("a", entry(1, policy="Kürzer ☂"))
        memory.Redis(client).reuse("a", entry(1, policy="Kürzer ☂"))
        assert memory.Redis(client).recall("a") == [(entry(1, policy="Kürzer ☂"), 1)]
        assert client.ping()


def test_what_others_put_there_is_passed_over(server: RedisServer) -> None:
    """Entries of another version and fields of something else are as if they were not there."""
    store = memory.Redis(server.url)
    store.remember("a", entry(1))
    value = str(server.client.hget("compacting:a", name_of(encoded(entry(1)))))
    server.client.hset("compacting:a", "later", value.partition("{")[0] + '{"v":9}')
    server.client.hset("compacting:a", "noise", "noise")
    assert lengths(store) == [1]
    store.remember("a", entry(2))
    assert lengths(store) == [2, 1]


def test_a_key_of_something_else_is_left_alone(server: RedisServer) -> None:
    """An error, and the other's value stays."""
    server.client.set("compacting:a", "theirs")
    store = memory.Redis(server.url)
    for call in (store.recall, lambda key: store.remember(key, entry(1))):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            call("a")
    assert server.client.get("compacting:a") == "theirs"


def test_a_server_that_was_away_is_used_again(own_server: RedisServer) -> None:
    """Errors while it is away; once it is back, the same store goes on, though the server knows neither scripts nor entries any more."""
    store = memory.Redis(own_server.url)
    store.remember("a", entry(1))
    own_server.stop()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            store.recall("a")
    own_server.start()
    assert lengths(store) == []
    store.remember("a", entry(2))
    assert lengths(store) == [2]


def test_a_server_that_never_answers_is_given_up() -> None:
    """Without any setting; what the URL says about it holds."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"redis://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(redis.TimeoutError):
            memory.Redis(url).recall("a")
        settings = memory.Redis(url)._client.connection_pool.connection_kwargs
        assert settings["socket_connect_timeout"] == settings["socket_timeout"] == 0.5
        assert settings["retry"]._retries == 0
        own = memory.Redis(f"{url}?socket_timeout=7")
        assert own._client.connection_pool.connection_kwargs["socket_timeout"] == 7


def test_asyncio_clients_are_refused() -> None:
    """The error says what to pass."""
    with pytest.raises(ConfigError, match=r"url_or_client is an asyncio client; pass a URL or the sync redis\.Redis"):
        memory.Redis(redis.asyncio.Redis())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        b"redis://x",
        redis.Redis,
        "",
        "localhost",
        "http://:secret@x",
        "redis://:secret@x:port",
        "redis://:secret@x?time=1",
    ],
    ids=str,
)
def test_a_wrong_server_is_refused(wrong: Any) -> None:
    """The error names the field, and no password."""
    with pytest.raises(ConfigError, match="url_or_client") as caught:
        memory.Redis(wrong)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", [None, "", 5, b"app"])
def test_a_wrong_namespace_is_refused(wrong: Any) -> None:
    """The error names the field."""
    with pytest.raises(ConfigError, match="namespace"):
        memory.Redis("redis://127.0.0.1", namespace=wrong)


def test_no_password_is_shown() -> None:
    """In settings that are logged."""
    assert repr(memory.Redis("redis://:secret@127.0.0.1")) == "Redis(ttl=86400, namespace='compacting')"


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`redis` is an extra."""
    monkeypatch.setitem(__import__("sys").modules, "redis", None)
    with pytest.raises(ConfigError, match=r"pip install 'compacting-client\[redis\]'"):
        memory.Redis("redis://127.0.0.1")
