"""Text that was inserted here, when an application stored a compacted history and sends it again (DESIGN 4).

It is known by its digest, which the memory holds under a key of its own: whoever merely writes in the words of our frame is a user like any
other.  The frame only tells which texts are worth asking for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, cast

from compacting_client.core.conversation import Conversation, Message, Ours
from compacting_client.core.edits import Inserted
from compacting_client.core.effects import Effect, Recall, Remember, Reuse
from compacting_client.core.prefix import MARK, Entry
from compacting_client.core.summaries import FRAME, summary_of

__all__ = ["folded", "marked", "recognised", "without_ours"]

_MARK = Entry(0, "", (), 0, "", MARK)
_MOST = 16  # texts of one item that are asked for: somebody may have pasted hundreds of frames
_REFRESHED = 8  # uses of an entry after which the marks of its texts are stored again: they live as long as it does

_SEEN = FRAME[0].partition("\n")[0]
_SEEN_BYTES = _SEEN.encode()


def recognised(conversation: Conversation, since: int = 0) -> Generator[Effect, Any, bool]:
    """Fill in ``conversation.ours``; False where no text even looks like ours.  Items before `since` are known not to; a store that is down
    knows none.
    """
    found: dict[int, Ours] = {}
    candidates = _candidates(conversation, since)
    for index in candidates:
        texts, alone = list[str](), True
        for message in conversation.neutral(index):
            for text in _texts(message.get("content")):
                ours = yield from _inserted(text)
                texts += ours
                alone = alone and bool(text is not None and not _left(text, ours).strip())
        if texts:
            found[index] = Ours(tuple(texts), alone)
    conversation.ours = found
    return bool(candidates)


def marked(
    conversation: Conversation, inserted: Sequence[Inserted], uses: int, commit: Remember | Reuse | None
) -> list[Remember | Reuse]:
    """What the memory is to be told, so that the texts are known again; `uses` of the entry that they are in, and what it is told of that."""
    told: list[Remember | Reuse] = []
    if isinstance(commit, Remember) or uses % _REFRESHED == 0:
        told += [Remember(_key(each.text), _MARK) for each in inserted if summary_of(each.text) is not None]
    return told + [Reuse(_key(text), _MARK) for ours in conversation.ours.values() for text in ours.texts]


def without_ours(conversation: Conversation, items: Iterable[int]) -> tuple[list[Message], list[str]]:
    """The neutral messages of some items without what was inserted into them, and the texts that were."""
    messages, texts = list[Message](), list[str]()
    for index in items:
        ours = conversation.ours.get(index)
        if ours is None:
            messages += conversation.neutral(index)
            continue
        texts += ours.texts
        if not ours.alone:
            messages += [_cleaned(message, ours.texts) for message in conversation.neutral(index)]
    return messages, texts


def folded(texts: Iterable[str]) -> str | None:
    """The summaries among inserted texts, as one; None where there is none."""
    return "\n\n".join(summary for text in texts if (summary := summary_of(text)) is not None) or None


def _candidates(conversation: Conversation, since: int) -> list[int]:
    imprints, answers, roles = conversation.contents.imprints, conversation.answers, conversation.roles
    said = zip(imprints[since:], roles[since:], strict=True)
    users = [imprint for imprint, role in said if role == "user"]
    with suppress(TypeError):  # they are not all plain texts
        if _SEEN not in "\0".join(cast("list[str]", users)):
            return []
    places = [index for index in range(since, len(roles)) if roles[index] == "user" and index not in answers]
    return [index for index in places if _shows_frame(imprints[index])]


def _shows_frame(imprint: Any) -> bool:
    return _SEEN in imprint if type(imprint) is str else type(imprint) is bytes and _SEEN_BYTES in imprint


def _texts(content: Any) -> Iterator[str | None]:
    """The texts of a content; None for each block that is none."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, (list, tuple)):
        for block in cast("Sequence[Any]", content):
            text = cast("dict[str, Any]", block).get("text") if isinstance(block, dict) else None
            yield text if isinstance(text, str) else None


def _inserted(text: str | None) -> Generator[Effect, Any, list[str]]:
    """The stretches of a text that were inserted here, at its start or at its end."""
    for asked, stretch in enumerate(_stretches(text or "")):
        if asked == _MOST:
            break
        try:
            stored: list[tuple[Entry, int]] = yield Recall(_key(stretch))
        except Exception:  # noqa: BLE001 - told by the look-up of the conversation itself
            break
        if any(entry.policy == MARK for entry, _ in stored):
            rest = yield from _inserted(_left(text or "", [stretch]))
            return [stretch, *rest]
    return []


def _stretches(text: str) -> Iterator[str]:
    """From each opening of the frame to the closing that follows: no summary has one in it.  From both ends of the text inwards."""
    opening, closing = FRAME
    last = text.rfind(closing)
    starts = [start for start in _places(text, opening) if start < last]
    while starts:
        start = starts.pop(0)
        yield text[start : text.index(closing, start) + len(closing)]
        starts.reverse()


def _places(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


def _left(text: str, ours: Iterable[str]) -> str:
    for each in ours:
        text = text.replace(each, "", 1)
    return text


def _cleaned(message: Message, ours: Sequence[str]) -> Message:
    """A message without some texts, and without the empty lines that joined them to the rest."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": _left(content, ours).strip("\n")}
    blocks: list[Any] = []
    for block, text in zip(cast("Sequence[Any]", content or ()), _texts(content), strict=True):
        left = _left(text, ours).strip("\n") if text is not None else None
        if left == text:
            blocks.append(block)
        elif left:
            blocks.append({**block, "text": left})
    return {**message, "content": blocks}


def _key(text: str) -> str:
    """Where the memory keeps the mark of a text: beside conversations, and never one of theirs."""
    return sha256(b"inserted text\0" + text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
