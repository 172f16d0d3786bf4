"""Where decisions about conversations are remembered (DESIGN 4)."""

from compacting_client.memory.base import Store
from compacting_client.memory.file import File
from compacting_client.memory.in_process import InProcess
from compacting_client.memory.redis import Redis

__all__ = ["File", "InProcess", "Redis", "Store"]
