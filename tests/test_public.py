"""The public names, and that they are all of them."""

import importlib
import inspect
from types import ModuleType

import pytest

import compacting_client
from compacting_client import memory, presets, testing

NAMES = {
    *("compacting", "is_compacting", "control", "Control"),
    *("Chain", "ClearToolResults", "DropOldest", "KeepTurns", "Ledger", "Policy"),
    *("compact", "compact_with_summary", "acompact_with_summary", "estimate_tokens"),
    *(
        "Report",
        "Reused",
        "Summarize",
        "SummaryCreated",
        "SummaryFailed",
        "SummaryRequest",
        "Event",
        "CompactionSkipped",
        "CompactionApplied",
        "ContentDropped",
        "ContentReplaced",
        "ContentReused",
    ),
    *("CompactionRecovered", "CompactionRejected"),
    *("Summarize", "SummaryRequest", "SummaryCreated", "SummaryFailed"),
    *("CompactingError", "ConfigError", "PolicyError", "BudgetError", "UnsupportedClientError"),
    "memory",
    "presets",
}
TESTING = {"EventCapture", "Failure", "Part", "Provider", "Recorded", "Script", "Thinking", "ToolCall"}
MEMORY = {"File", "InProcess", "Redis", "Store"}


def public(module: ModuleType) -> set[str]:
    """What a module holds that is neither private nor one of its own submodules."""
    names = {name for name in vars(module) if not name.startswith("_") and name != "annotations"}
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


@pytest.mark.parametrize(("module", "names"), [(compacting_client, NAMES), (testing, TESTING), (memory, MEMORY)])
def test_all_is_exactly_the_public_names(module: ModuleType, names: set[str]) -> None:
    """`__all__` lists these names and no others; nothing else can be reached by accident."""
    assert set(module.__all__) == names
    assert len(module.__all__) == len(names)
    assert public(module) == names - {"memory", "presets"}


def test_every_public_name_is_documented() -> None:
    """`help()` of each says something, and so do the methods and properties of each class."""
    for module in (compacting_client, testing, memory, presets):
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
                continue  # a type alias
            assert inspect.getdoc(thing), name
            if not inspect.isclass(thing):
                continue
            fields = getattr(thing, "__dataclass_fields__", {})  # the docstring of the class tells them
            for attribute, value in vars(thing).items():
                told = attribute.startswith("_") or attribute in fields
                if not told and (inspect.isroutine(value) or isinstance(value, property)):
                    assert inspect.getdoc(value), f"{name}.{attribute}"


def test_submodules_named_in_the_docs_can_be_imported_from_the_package() -> None:
    """`from compacting_client import memory, testing` works in a fresh interpreter's order too."""
    assert importlib.import_module("compacting_client.testing") is testing
    assert importlib.import_module("compacting_client.memory") is memory


def test_errors_have_one_root() -> None:
    """Whoever catches CompactingError catches all of them; some are builtin errors too."""
    for name in ("ConfigError", "PolicyError", "BudgetError", "UnsupportedClientError"):
        assert issubclass(getattr(compacting_client, name), compacting_client.CompactingError)
    assert issubclass(compacting_client.ConfigError, (ValueError, TypeError))
    assert issubclass(compacting_client.UnsupportedClientError, TypeError)
