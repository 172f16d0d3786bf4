"""The histories that a client sent last, in this process."""

from __future__ import annotations

from compacting_client.core.recent import Seen
from compacting_client.openings import Openings

__all__ = ["Recent"]


class Recent(Openings[Seen]):
    """Holds sizes and hashes of the histories seen last: at most 200,000 sizes, of 8 bytes each or a little more."""

    most = 200_000

    def weight(self, held: Seen) -> int:
        """Its sizes."""
        return len(held.sizes)
