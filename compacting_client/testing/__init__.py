"""For tests of applications: a loopback provider that refuses what the real one refuses, and event capture.

    from compacting_client.testing import Provider, ToolCall

    with Provider(window=8_000) as provider:
        provider.reply(ToolCall("get_weather", {"city": "Rome"}))
        provider.reply("It is sunny in Rome.")
        with OpenAI(base_url=provider.openai_url, api_key="test") as client:
            ...
        assert [request.status for request in provider.requests] == [200, 200]

No network beyond 127.0.0.1, no key, no SDK needed by this package itself.
"""

from compacting_client.testing.capture import EventCapture
from compacting_client.testing.provider import Provider
from compacting_client.testing.script import Failure, Part, Recorded, Script, Thinking, ToolCall

__all__ = ["EventCapture", "Failure", "Part", "Provider", "Recorded", "Script", "Thinking", "ToolCall"]
