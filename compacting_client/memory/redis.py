"""A store in Redis, for workers on many machines."""

from __future__ import annotations

import json
import math
import re
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from compacting_client.core.claims import Claimed
from compacting_client.core.prefix import Entry
from compacting_client.errors import ConfigError
from compacting_client.memory.base import KEPT_ENTRIES
from compacting_client.memory.serial import claimed, decoded, encoded, name_of
from compacting_client.validation import whole_number

if TYPE_CHECKING:
    import redis

__all__ = ["Redis"]

_TIMEOUT = 0.5  # seconds, to connect and for each answer: a request that is under way waits for it
_DELETED_AT_ONCE = 500

# A conversation is one hash: name of an entry -> "turn:end:uses:entry", and "turn" -> the turn taken last.  A new turn is taken with each use;
# ends are milliseconds of the server's clock.  The hash itself goes with the last of its entries.
_NOW = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
"""

_RECALL = f"""{_NOW}
local live = {{}}
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do
  local ends = string.match(value, '^%d+:(%d+):')
  if ends and tonumber(ends) > now then live[#live + 1] = value end
end
return live
"""

_PUT = f"""{_NOW}
local function put(name, uses, entry, ttl)
  local turn = redis.call('HINCRBY', KEYS[1], 'turn', 1)
  redis.call('HSET', KEYS[1], name, string.format('%d:%.0f:%d:', turn, now + ttl, uses) .. entry)
  if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[1], ttl) end
end
"""

_REMEMBER = f"""{_PUT}
local name, entry, replaced, ttl, most = unpack(ARGV)
redis.call('HDEL', KEYS[1], name, replaced)
local held, fields = {{}}, redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local turn, ends = string.match(fields[i + 1], '^(%d+):(%d+):')
  if ends and tonumber(ends) > now then
    held[#held + 1] = {{tonumber(turn), fields[i]}}
  elseif fields[i] ~= 'turn' then
    redis.call('HDEL', KEYS[1], fields[i])
  end
end
table.sort(held, function(one, other) return one[1] > other[1] end)
for i = tonumber(most), #held do redis.call('HDEL', KEYS[1], held[i][2]) end
put(name, 0, entry, ttl)
"""

_REUSE = f"""{_PUT}
local name, ttl = unpack(ARGV)
local ends, uses, entry = string.match(redis.call('HGET', KEYS[1], name) or '', '^%d+:(%d+):(%d+):(.*)$')
if ends and tonumber(ends) > now then put(name, uses + 1, entry, ttl) end
"""

# The claims of a conversation are another hash beside it: name -> "token:end:text", the text as JSON and empty until it is made.  What has
# ended goes with the next claim that is taken, and the hash with the last of them.
_FIND = f"""{_NOW}
local token, ends, text = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%x+):(%d+):(.*)$')
"""

_CLAIM = f"""{_FIND}
if ends and tonumber(ends) > now then return text end
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local over = string.match(fields[i + 1], '^%x+:(%d+):')
  if not over or tonumber(over) <= now then redis.call('HDEL', KEYS[1], fields[i]) end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s:%.0f:', ARGV[2], now + ARGV[3]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return false
"""

_PUBLISH = f"""{_FIND}
if token == ARGV[2] then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%s:%.0f:', token, now + ARGV[3]) .. ARGV[4])
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
end
"""

_RELEASE = f"""{_FIND}
if token == ARGV[2] and text == '' then redis.call('HDEL', KEYS[1], ARGV[1]) end
"""


class Redis:
    """Remembers in Redis 5 or newer, with the package `redis` (the extra `redis`).  Raises ConfigError.

    ``url_or_client``  a URL (redis://, rediss://, unix://), whose server has half a second to connect and to answer, unless the URL says
                       otherwise (?socket_timeout=2); or your own redis.Redis, with its own timeouts.  On async clients calls run in a thread
    ``ttl``            so many seconds (int >= 1) after its last use an entry goes
    ``namespace``      what its keys begin with: stores of different ones do not see each other

    The methods raise redis.RedisError, which in a request costs an event.  Each is one round trip, `forget()` aside.
    """

    blocking: Final = True
    shared: Final = True

    def __init__(self, url_or_client: str | redis.Redis, ttl: int = 86400, namespace: str = "compacting") -> None:
        self._ttl = whole_number("ttl", ttl, at_least=1)
        self._namespace = _namespace(namespace)
        self._client = _client(url_or_client)
        self._recall = self._client.register_script(_RECALL)
        self._remember = self._client.register_script(_REMEMBER)
        self._reuse = self._client.register_script(_REUSE)
        self._claim = self._client.register_script(_CLAIM)
        self._publish = self._client.register_script(_PUBLISH)
        self._release = self._client.register_script(_RELEASE)

    def __repr__(self) -> str:
        return f"Redis(ttl={self._ttl}, namespace={self._namespace!r})"  # no URL: it may hold a password

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """The entries of a conversation, the one used last first."""
        found: list[tuple[int, Entry, int]] = []
        for value in self._recall(keys=[self._named(key)]):
            turn, _, uses, text = _text(value).split(":", 3)
            entry = decoded(text)
            if entry is not None:
                found.append((int(turn), entry, int(uses)))
        found.sort(key=lambda each: -each[0])
        return [(entry, uses) for _, entry, uses in found]

    def remember(self, key: str, entry: Entry, replaces: Entry | None = None) -> None:
        """Add an entry in front of the others."""
        text = encoded(entry)
        old = name_of(encoded(replaces)) if replaces is not None else ""
        self._remember(keys=[self._named(key)], args=[name_of(text), text, old, self._ttl * 1000, KEPT_ENTRIES])

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use, and put it in front."""
        self._reuse(keys=[self._named(key)], args=[name_of(encoded(entry)), self._ttl * 1000])

    def forget(self, key: str | None = None) -> None:
        """Forget one conversation, or all of this namespace."""
        if key is not None:
            self._client.delete(self._named(key), self._claims(key))
            return
        start = self._named("")
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", start) + "*"
        names: list[Any] = []
        for name in self._client.scan_iter(match=pattern, count=1000):
            if ":" in _text(name)[len(start) :]:
                continue  # of a namespace that begins like this one
            names.append(name)
            if len(names) == _DELETED_AT_ONCE:
                self._client.delete(*names)
                names.clear()
        if names:
            self._client.delete(*names)

    def claim(self, key: str, name: str, seconds: float) -> Claimed:
        """Take a claim, or learn what came out of it."""
        token = token_hex(8)
        held = self._claim(keys=[self._claims(key)], args=[name, token, math.ceil(seconds * 1000)])
        return Claimed(token) if held is None else claimed(_text(held))

    def publish(self, key: str, name: str, token: str, text: str, seconds: float) -> None:
        """Put a text in the place of a claim."""
        self._publish(
            keys=[self._claims(key)], args=[name, token, math.ceil(min(seconds, self._ttl) * 1000), json.dumps(text)]
        )

    def release(self, key: str, name: str, token: str) -> None:
        """Give a claim back."""
        self._release(keys=[self._claims(key)], args=[name, token])

    def _claims(self, key: str) -> str:
        return f"{self._named(key)}/claims"

    def _named(self, key: str) -> str:
        return f"{self._namespace}:{key}"


def _text(value: Any) -> str:
    """What a server sent: bytes, or text where the caller's client decodes."""
    return value if isinstance(value, str) else value.decode()


def _namespace(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"namespace must be a text such as the name of your application, not {value!r}")
    return value


def _client(given: Any) -> Any:
    """The client that is meant.  Raises ConfigError."""
    try:
        import redis
        from redis.asyncio import Redis as AsyncRedis
    except ImportError:
        raise ConfigError("memory.Redis needs the package redis: pip install 'compacting-client[redis]'") from None
    if isinstance(given, str):
        return _connecting(given)
    if isinstance(given, AsyncRedis):
        raise ConfigError(
            "url_or_client is an asyncio client; pass a URL or the sync redis.Redis: on async clients its calls run in a thread"
        )
    if not isinstance(given, redis.Redis):
        raise ConfigError(f"url_or_client must be a URL or a redis.Redis, not {type(given).__name__}")
    return given


def _connecting(url: str) -> Any:
    """A client that gives up soon.  Raises ConfigError, which does not show the URL: it may hold a password."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    once = Retry(NoBackoff(), 0)
    try:
        package: Any = redis  # from_url is typed by halves
        client = package.Redis.from_url(url, socket_connect_timeout=_TIMEOUT, socket_timeout=_TIMEOUT, retry=once)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # not connected; raises for options that there are not
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"url_or_client is no URL of Redis ({type(error).__name__}); it must be like redis://localhost:6379/0, rediss:// or unix://"
        ) from None
    return client
