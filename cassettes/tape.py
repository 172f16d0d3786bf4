"""What of a request and a response goes into a cassette, and what has to match when it is played.

A cassette pins what leaves the wrapped client: method, path, query and body.  It holds nothing of where and when it was made: no host, no
header but the content type, no time; ids that a server made up are numbered.  So recording again changes a file only where a request or
an answer really changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vcr
import yaml
from vcr.cassette import Cassette
from vcr.record_mode import RecordMode
from vcr.request import Request

RECORDED = Path(__file__).parent / "recorded"
MATCH_ON = ("method", "path", "query", "body")
HOST = "http://loopback"

_ID = re.compile(r"\b(chatcmpl-|call_|msg_|toolu_)([0-9A-Za-z_-]{16,})")
_CREATED = re.compile(r'("created": ?)\d+')
_REPEATED = 80  # characters of JSON from which on a part that comes again is written once


@contextmanager
def tape(name: str, *, record: bool = False, match_on: tuple[str, ...] = MATCH_ON) -> Generator[Cassette]:
    """Record over the cassette of this name, or play it: then a request that is not in it raises, inside the SDK's own connection error."""
    neutral = _Neutral()
    recorder = vcr.VCR(
        record_mode=RecordMode.ALL if record else RecordMode.NONE,
        match_on=match_on,
        before_record_request=neutral.request,
        before_record_response=neutral.response,
        decode_compressed_response=True,
        record_on_exception=False,
    )
    recorder.register_serializer("readable", Readable)
    if record:
        path_of(name).unlink(missing_ok=True)  # what is in the file would stay in it
    with recorder.use_cassette(path_of(name), serializer="readable") as cassette:
        yield cassette


def path_of(name: str) -> Path:
    """The file of a cassette."""
    return RECORDED / f"{name}.yaml"


def sent(request: Request) -> Any:
    """The JSON body of a request."""
    body: Any = request.body  # typed for streams and files too
    return json.loads(body)


class _Neutral:
    """Takes out what differs from one recording to the next; numbers ids in the order in which they come up.

    A number has as many characters as the id it stands for, so that a request counts as many tokens when it is played.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def request(self, request: Request) -> Request:
        """Without host and headers."""
        query = f"?{request.parsed_uri.query}" if request.parsed_uri.query else ""
        kept = {"content-type": "application/json"}  # the matcher of bodies compares JSON by what it says
        return Request(request.method, HOST + request.path + query, self._numbered(json.dumps(sent(request))), kept)

    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Without time and headers."""
        body = _CREATED.sub(r"\g<1>0", self._numbered(response["body"]["string"].decode()))
        kinds = [value for name, value in response["headers"].items() if name.lower() == "content-type"]
        return {
            "status": response["status"],
            "headers": {"content-type": kinds[0]},
            "body": {"string": body.encode()},
        }

    def _numbered(self, text: str) -> str:
        return _ID.sub(self._number, text)

    def _number(self, found: re.Match[str]) -> str:
        prefix, made_up = found.groups()
        if made_up.startswith("0" * 8):
            return found[0]  # numbered already
        return prefix + self._ids.setdefault(found[0], str(len(self._ids) + 1).zfill(len(made_up)))


class Readable:
    """vcrpy's own form, with JSON bodies as YAML, and a message that is sent again as a reference to its first place."""

    @staticmethod
    def serialize(cassette: dict[str, Any]) -> str:
        """As a file."""
        seen: dict[str, Any] = {}
        for each in cassette["interactions"]:
            request, response = each["request"], each["response"]
            request["body"] = _once(json.loads(request["body"]), seen)
            if response["headers"]["content-type"][0].startswith("application/json"):
                response["body"]["string"] = _once(json.loads(response["body"]["string"]), seen)
        written = yaml.dump(cassette, Dumper=_Dumper, sort_keys=False, width=150)
        return f"# Written by `make cassettes`; not to be edited.\n{written}"

    @staticmethod
    def deserialize(text: str) -> dict[str, Any]:
        """As vcrpy takes it."""
        cassette: dict[str, Any] = yaml.load(text, Loader=_Loader)
        for each in cassette["interactions"]:
            each["request"]["body"] = json.dumps(each["request"]["body"])
            said = each["response"]["body"]
            if not isinstance(said["string"], str):
                said["string"] = json.dumps(said["string"])
        return cassette


def _once(value: Any, seen: dict[str, Any]) -> Any:
    """The same data, with one object for all parts that are equal: YAML writes an object once and refers to it afterwards."""
    if isinstance(value, dict):
        value = {key: _once(item, seen) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_once(item, seen) for item in value]
    else:
        return value
    written = json.dumps(value)
    return seen.setdefault(written, value) if len(written) >= _REPEATED else value


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML was built with libyaml


class _Dumper(yaml.SafeDumper):
    def generate_anchor(self, node: yaml.Node) -> str:
        return super().generate_anchor(node).removeprefix("id")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
