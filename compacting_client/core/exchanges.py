"""Which items belong together: a tool call and its results are one unit, kept or dropped whole (DESIGN 3.1).

A call is answered by the nearest following result of its id: a result is paired with the *nearest preceding unanswered* call, wherever it
stands.  That one rule covers reused ids, results that are not adjacent, parallel batches and calls spread over several items
(SEEDS C1, C2, P2; NousResearch/hermes-agent#70724).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

__all__ = ["Exchanges", "pair"]


class Exchanges:
    """The units of a history of `size` items.

    ``owner[i]`` is the index of the first item of the unit that item *i* belongs to; ``members[first]`` lists the item indexes, in order, of
    each unit of more than one item; ``position[i]`` says, for each answer of item *i*, which call of its call item it answers, where that is
    not the first one.
    """

    __slots__ = ("_mixed", "members", "owner", "position")

    def __init__(self, size: int) -> None:
        self.owner = list(range(size))
        self.members: dict[int, list[int]] = {}
        self.position: dict[int, list[int]] = {}
        self._mixed = False

    def unit(self, index: int) -> Sequence[int]:
        """The item indexes of the unit that item `index` belongs to."""
        first = self.owner[index]
        return self.members.get(first) or (first,)

    def items(self, units: AbstractSet[int]) -> set[int]:
        """The item indexes of some units."""
        found, members = set(units), self.members
        for unit in members.keys() & units:
            found.update(members[unit])
        return found

    def join(self, one: int, other: int) -> None:
        """Make the units of two items one; `members` is in order again after `settle`."""
        owner = self.owner
        first, second = owner[one], owner[other]
        if first == second:
            return
        if first > second:
            first, second = second, first
        if (
            second == other and other not in self.members
        ):  # an item alone joins a unit before it, as nearly all results do
            owner[other] = first
            members = self.members.get(first)
            if members is None:
                self.members[first] = [first, other]
            else:
                self._mixed |= members[-1] > other
                members.append(other)
            return
        self._mixed = True
        moved = self.members.pop(second, None) or [second]
        self.members.setdefault(first, [first]).extend(moved)
        for index in moved:
            self.owner[index] = first

    def settle(self) -> Exchanges:
        """Put the members of each unit in order."""
        if self._mixed:
            for members in self.members.values():
                members.sort()
        return self


def pair(
    calls: Mapping[int, Sequence[str]],
    answers: Mapping[int, Sequence[str]],
    links: Iterable[tuple[int, int]] = (),
    *,
    size: int,
) -> Exchanges:
    """Group `size` items into units.

    `calls` and `answers` map an item's index to the ids that it asks for or answers; `links` are pairs of items that belong together for
    another reason.  An answer whose call is nowhere before it stays a unit of its own: it is the caller's own fault, and cut like any unit.
    """
    found = Exchanges(size)
    asks = {call: index for index, ids in calls.items() for call in ids}
    if len(asks) == sum(map(len, calls.values())):
        _pair_unique(found, asks, calls, answers)
    else:
        _pair_nearest(found, calls, answers)
    for one, other in links:
        found.join(one, other)
    return found.settle()


def _pair_unique(
    found: Exchanges, asks: Mapping[str, int], calls: Mapping[int, Sequence[str]], answers: Mapping[int, Sequence[str]]
) -> None:
    """What `_pair_nearest` comes to where no id is asked for twice, as in most histories: an answer belongs to the one call of its id."""
    owner, members = found.owner, found.members
    places = {call: place for ids in calls.values() if len(ids) > 1 for place, call in enumerate(ids) if place}
    for index in sorted(answers):
        ids = answers[index]
        if len(ids) == 1:  # joins its call as `join` has it
            (call,) = ids
            one = asks.get(call, index)
            if one < index:
                first = owner[index] = owner[one]
                if first in members:
                    members[first].append(index)
                else:
                    members[first] = [first, index]
                if call in places:
                    found.position[index] = [places[call]]
            continue
        known = [call for call in ids if asks.get(call, index) < index]
        for call in known:
            found.join(asks[call], index)
        if any(call in places for call in known) or len(known) > 1:
            found.position[index] = [places.get(call, 0) for call in known]


def _pair_nearest(found: Exchanges, calls: Mapping[int, Sequence[str]], answers: Mapping[int, Sequence[str]]) -> None:
    """Each answer with the nearest call of its id before it that nobody answered yet."""
    waiting, done = (
        dict[str, tuple[int, int]](),
        dict[str, tuple[int, int]](),
    )  # by id: the item, and which of its calls it is
    hidden: dict[
        str, list[tuple[int, int]]
    ] = {}  # those of an id that waits again, further on: the latest is answered first
    for index in sorted({**calls, **answers}):
        if index in answers:
            places: list[int] = []
            for call in answers[index]:
                asked = waiting.pop(call, None)
                if asked is None:  # a second answer stays with the same call; what nobody asked for stays alone
                    asked = done.get(call)
                else:
                    done[call] = asked
                    if hidden.get(call):
                        waiting[call] = hidden[call].pop()
                if asked is not None:
                    found.join(asked[0], index)
                    places.append(asked[1])
            if places and places != [0]:
                found.position[index] = places
        if index in calls:
            for place, call in enumerate(calls[index]):
                if call in waiting:
                    hidden.setdefault(call, []).append(waiting[call])
                waiting[call] = index, place
