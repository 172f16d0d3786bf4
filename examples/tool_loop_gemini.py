"""A tool loop with Google's SDK: by hand, and by automatic function calling.  A call and its results go together or stay together; the
question stays, and what `pin` selects.

With automatic function calling the loop runs inside the SDK, where no application can trim: each of its requests is cut and reported by itself.
"""

import json
from typing import Any

from google import genai
from google.genai import types
from without_key import loopback

from compacting_client import DropOldest, Report, compacting
from compacting_client.testing import ToolCall

QUESTION = "On which of the days 1 to 12 was there any damage? Read one log at a time, in order."
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="read_log",
            description="The log of one day.",
            parameters_json_schema={"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]},
        )
    ]
)


def read_log(day: int) -> str:
    """The log of one day."""
    note = "DAMAGE: the foresail is torn." if day == 2 else "All well."
    return json.dumps(
        {"day": day, "note": note, "hours": [f"{hour:02}:00 wind NW 5, course 270" for hour in range(24)]}
    )


def damage(message: dict[str, Any]) -> bool:
    """Shown neutral messages {role, content, tool_calls, tool_call_id, name}, whatever the provider; their exchange is never dropped."""
    return message["role"] == "tool" and message.get("name") == "read_log" and "DAMAGE" in str(message["content"])


def trimmed(report: Report) -> None:
    now = sum(unit.since == 0 for unit in report.dropped)
    print(
        f"{report.tokens_before:5} -> {report.tokens_after:5} tokens, exchanges: {now} dropped now, {len(report.dropped)} absent"
    )


# Only where no key is set: what is answered then, to each of both loops. A real model decides by itself.
loopback(*[*(ToolCall("read_log", {"day": day}) for day in range(1, 13)), "The foresail was torn on day 2."] * 2)

client = compacting(genai.Client(), DropOldest(max_tokens=2_000), pin=damage, on_report=trimmed)

print("By hand")
contents: list[Any] = [types.UserContent(QUESTION)]
for _ in range(20):
    response = client.models.generate_content(
        model="gemini-3-flash-preview", contents=contents, config=types.GenerateContentConfig(tools=[TOOL])
    )
    assert response.candidates
    contents.append(response.candidates[0].content)  # with the signatures of its calls, which have to come back
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"result": read_log(**(call.args or {}))}
            )
        )
        for call in response.function_calls or ()
    ]
    if not results:
        print(response.text)
        break
    contents.append(types.UserContent([*results]))

print("By automatic function calling")
chat = client.chats.create(
    model="gemini-3-flash-preview",
    config=types.GenerateContentConfig(
        tools=[read_log],  # the function itself
        automatic_function_calling=types.AutomaticFunctionCallingConfig(maximum_remote_calls=20),  # else 10
    ),
)
print(chat.send_message(QUESTION).text)
print(f"The chat itself remembers {len(chat.get_history())} messages.")
