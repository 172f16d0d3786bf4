"""Where decisions about conversations are remembered (DESIGN 4)."""

from compacting_client.memory.base import Store
from compacting_client.memory.in_process import InProcess

__all__ = ["InProcess", "Store"]
