"""What calibration does to a budget, and what it leaves alone."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import openai
import pytest

from compacting_client import DropOldest, compacting, control
from compacting_client.testing import Failure, Provider
from tests.counting.conversations import (
    APIS,
    CHAT,
    CLAUDE,
    GEMINI,
    MODELS,
    Body,
    called,
    client_of,
    evenly,
    reports_of,
    talk,
)
from tests.driving import size

MakeProvider = Callable[..., Provider]
ROOMY = DropOldest(1_000_000)


@pytest.mark.parametrize("api", APIS)
async def test_a_budget_is_held_in_the_providers_tokens(api: str, counting_provider: MakeProvider) -> None:
    """Chinese takes several times the estimate: once that is known, no request is over the budget by the provider's own count, and a cut comes
    close to its target; the estimate alone would have let all of them pass."""
    bodies = [talk(api, "Chinese", turns) for turns in range(1, 16)]
    reports = await reports_of(counting_provider(api), api, "sync", DropOldest(6_000), bodies)
    assert max(report.usage.input_tokens for report in reports if report.usage) <= 6_000 * 1.05
    cuts = [report for report in reports if report.trigger == "tokens"]
    assert cuts
    for report in cuts:
        assert report.usage is not None
        assert report.tokens_after <= 3_000
        assert report.usage.input_tokens == pytest.approx(report.tokens_after, rel=0.15)
        assert sum(unit.tokens for unit in report.dropped) == report.tokens_before - report.tokens_after
    unaware = await reports_of(counting_provider(api), api, "sync", DropOldest(6_000), bodies, counter=_by_size)
    assert not any(report.changed for report in unaware)


def _by_size(message: Body) -> int:
    return len(str(message)) // 4


async def test_before_anything_is_learned_the_figures_are_the_estimate(counting_provider: MakeProvider) -> None:
    """The first two requests, to the unit."""
    bodies = [talk(CHAT, "JSON", turns, tools=True) for turns in (1, 2, 3)]
    reports = await reports_of(counting_provider(CHAT), CHAT, "sync", ROOMY, bodies)
    figures = [report.tokens_before for report in reports]
    assert figures[:2] == [size(body) for body in bodies[:2]]
    assert figures[2] != size(bodies[2])
    assert all(isinstance(figure, int) for figure in figures)


async def test_a_provider_that_counts_as_the_estimate_changes_no_figure(counting_provider: MakeProvider) -> None:
    """To the unit, however long the conversation gets."""
    provider = counting_provider(CHAT, lambda text: -(-len(text.encode("utf-16-le")) // 8))
    bodies = [talk(CHAT, "German", turns, tools=True) for turns in range(1, 9)]
    reports = await reports_of(provider, CHAT, "sync", ROOMY, bodies)
    assert [report.tokens_before for report in reports] == [size(body) for body in bodies]


async def test_a_remembered_cut_stays_where_it_is(counting_provider: MakeProvider) -> None:
    """What is learned after it changes figures, not what leaves."""
    provider = counting_provider(CHAT, evenly)
    bodies = [talk(CHAT, "English", turns) for turns in (14, 15, 16)]
    reports = await reports_of(provider, CHAT, "sync", DropOldest(3_000, target=0.3), bodies)
    arrived = [request.body["messages"] for request in provider.requests]
    assert reports[0].trigger == "tokens"
    assert [report.trigger for report in reports[1:]] == [None, None]
    for before, after in pairwise(arrived):
        assert after[: len(before)] == before
    assert reports[2].tokens_after > size(provider.requests[2].body)


@pytest.mark.parametrize("extra", ["server tool", "search", "edits", "link"])
async def test_what_text_does_not_explain_is_not_learned_from(extra: str, counting_provider: MakeProvider) -> None:
    """Tools that the provider runs, edits of its own, pictures that only it can see."""
    api = CHAT if extra in ("search", "link") else CLAUDE
    bodies = [talk(api, "Chinese", turns) for turns in (1, 2, 3, 4)]
    for body in bodies:
        if extra == "server tool":
            body["tools"] = [{"type": "web_search_20250305", "name": "web_search"}]
        elif extra == "search":
            body["web_search_options"] = {}
        elif extra == "edits":
            body["extra_body"] = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
        else:
            picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
            body["messages"][1] = {"role": "user", "content": [{"type": "text", "text": "See."}, picture]}
    await _never_learned(counting_provider(api), api, bodies)


async def test_thinking_is_not_learned_from(counting_provider: MakeProvider) -> None:
    """What of it the provider counts is its own affair."""
    bodies = [talk(CLAUDE, "Chinese", turns) for turns in (1, 2, 3, 4)]
    provider = counting_provider(CLAUDE)
    with client_of(provider, CLAUDE) as plain:
        from compacting_client.testing import Thinking

        provider.reply(Thinking("Hm."), "Well.")
        first = plain.messages.create(model=MODELS[CLAUDE], max_tokens=50, messages=bodies[0]["messages"][:1])
    thought = {"role": "assistant", "content": [block.model_dump() for block in first.content]}
    for body in bodies:
        body["messages"] = [body["messages"][0], thought, *body["messages"][2:]]
    await _never_learned(provider, CLAUDE, bodies)


async def _never_learned(provider: Provider, api: str, bodies: list[Body]) -> None:
    reports = await reports_of(provider, api, "sync", ROOMY, bodies)
    alone = await reports_of(provider, api, "sync", ROOMY, bodies[-1:])
    assert reports[-1].usage is not None
    assert reports[-1].tokens_before == alone[0].tokens_before < reports[-1].usage.input_tokens * 0.9


async def test_errors_teach_nothing(counting_provider: MakeProvider) -> None:
    """A request that was refused leaves no trace."""
    provider = counting_provider(CHAT)
    with client_of(provider, CHAT) as plain:
        client = compacting(plain, ROOMY)
        for turns in (1, 2, 3):
            provider.reply(Failure(503))
            with pytest.raises(openai.APIStatusError):
                called(client, CHAT, "sync", talk(CHAT, "Chinese", turns))
        report = control(client).last_report
    assert report is not None
    assert report.tokens_before == size(talk(CHAT, "Chinese", 3))


async def test_other_models_and_other_tools_are_counted_for_themselves(counting_provider: MakeProvider) -> None:
    """And another conversation of the same kind profits at once."""
    provider = counting_provider(CHAT)
    bodies = [talk(CHAT, "Chinese", turns) for turns in (1, 2, 3)]
    system, *_ = bodies[0]["messages"]
    same = {"messages": [system, {"role": "user", "content": bodies[2]["messages"][1]["content"] * 3}]}
    tools = {**same, "tools": talk(CHAT, "Chinese", 1, tools=True)["tools"]}
    with client_of(provider, CHAT) as plain:
        client = compacting(plain, ROOMY)
        figures = []
        for body in (*bodies, same, tools, {**same, "model": "gpt-4o"}):
            client.chat.completions.create(**{"model": "gpt-5-mini", **body})
            report = control(client).last_report
            assert report is not None
            assert report.usage is not None
            figures.append((report.tokens_before, report.usage.input_tokens))
    assert figures[3][0] == pytest.approx(figures[3][1], rel=0.15)
    assert figures[4][0] == size(tools)
    assert figures[5][0] == size(same)


async def test_a_callers_own_counter_is_never_calibrated(counting_provider: MakeProvider) -> None:
    """Its figures are used as they are."""
    bodies = [talk(CHAT, "Chinese", turns) for turns in (1, 2, 3, 4)]
    reports = await reports_of(counting_provider(CHAT), CHAT, "sync", ROOMY, bodies, counter=lambda _: 10)
    assert [report.tokens_before for report in reports] == [10 * len(body["messages"]) for body in bodies]


async def test_many_conversations_at_once_learn_for_themselves(counting_provider: MakeProvider) -> None:
    """Each language by its own rate, though all share a model and a client."""
    provider = counting_provider(CHAT)
    errors: dict[str, float] = {}

    async def chat(client: Any, language: str) -> None:
        for turns in (1, 2, 3, 4):
            body = talk(CHAT, language, turns)
            body["messages"][1]["content"] = f"{language}: {body['messages'][1]['content']}"
            response = await client.chat.completions.create(model="gpt-5-mini", **body)
            report = control(client).report_for(response)
            assert report is not None
            assert report.usage is not None
            errors[language] = abs(report.tokens_before / report.usage.input_tokens - 1)

    async with client_of(provider, CHAT, asynchronous=True) as plain:
        client = compacting(plain, ROOMY)
        await asyncio.gather(*(chat(client, language) for language in ("English", "German", "Chinese", "code", "JSON")))
    assert max(errors.values()) <= 0.05, errors


def test_what_is_known_holds_no_text_and_is_bounded(counting_provider: MakeProvider) -> None:
    """Numbers alone, of the thousand conversations used last."""
    from compacting_client.bindings import bound

    with client_of(counting_provider(CHAT), CHAT) as plain:
        client = compacting(plain, ROOMY)
        session = bound(client)
        assert session is not None
        for number in range(1_010):
            session.conversations._known._seen[f"filler {number}",] = ()
        for turns in (1, 2, 3):
            called(client, CHAT, "sync", talk(CHAT, "English", turns))
        known = session.conversations._known._seen
        assert len(known) == 1_000
        assert "glass" not in repr(list(known.values()))
        assert [len(each.rates) for each in known[next(reversed(known))]] == [2]


def test_gemini_conversations_have_a_size_too(counting_provider: MakeProvider) -> None:
    """A chat of the SDK, which keeps its history by itself."""
    with client_of(counting_provider(GEMINI), GEMINI) as plain:
        client = compacting(plain, ROOMY)
        chat = client.chats.create(model=MODELS[GEMINI], config={"system_instruction": "Keep the log."})
        answers = [chat.send_message(f"{turn}. " + "风向转北,我们收起了主帆。" * (9 + turn)) for turn in range(4)]
        report = control(client).report_for(answers[-1])
    assert report is not None
    assert report.usage is not None
    assert report.tokens_before == pytest.approx(report.usage.input_tokens, rel=0.05)
