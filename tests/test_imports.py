"""The shape of the package: who may know whom, what works without extras, how long things may be (DESIGN 1 and 8)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "compacting_client"
FILES = sorted(PACKAGE.rglob("*.py"))
SDKS = {
    "openai",
    "anthropic",
    "google",
    "httpx",
    "httpx2",
    "pydantic",
    "redis",
    "tiktoken",
    "genai_prices",
    "botocore",
    "rich",
}
LISTS = {
    "genai_prices",
    "tiktoken",
}  # data of an extra, read by the one function that needs it; where it is absent, that knows nothing, or says so when wrapping
PROVIDERS = re.compile(r"openai|anthropic|claude|gemini|gpt|bedrock|azure|vertex", re.IGNORECASE)
NAMES_PROVIDERS = (
    "formats",
    "bindings",
    "testing",
)  # a provider's name stands in its format, its binding and `testing`
SAYS_WHAT_TO_PASS = (
    "__init__.py",
    "wrap.py",
    "plain.py",
)  # the docstrings that tell users which clients and messages fit
FILE_LINES = 400
FUNCTION_LINES = 40

BY_EXTRA = {"memory/redis.py": "redis"}  # what an extra brings, imported by one module, inside a function

files = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))


def part(file: Path) -> str:
    """The folder or module that a file belongs to: core, formats, shell ..."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(node: ast.AST, *, at_run_time: bool = False, at_top: bool = False) -> Iterator[str]:
    """Every name that is imported below `node`, `from a import b` as "a.b".

    at_run_time: without what stands under TYPE_CHECKING.  at_top: without what functions import when they run.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif at_run_time and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from imports(ast.Module([other], []), at_run_time=True, at_top=at_top)
        elif not (at_top and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))):
            yield from imports(child, at_run_time=at_run_time, at_top=at_top)


def docstrings(file: Path) -> dict[int, str]:
    """The docstrings of a file by the identity of their nodes, those under attributes included."""
    bodies = (getattr(node, "body", None) for node in ast.walk(tree(file)))
    statements = (each for body in bodies if isinstance(body, list) for each in body if isinstance(each, ast.Expr))
    values = (each.value for each in statements)
    return {id(each): each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def test_the_core_is_pure() -> None:
    """Core imports core, errors and computation: no I/O, no clock, no logging, no asyncio, no SDK, nothing else of the package."""
    pure = {
        "__future__",
        "struct",
        "bisect",
        "collections",
        "contextlib",
        "dataclasses",
        "decimal",
        "functools",
        "hashlib",
        "itertools",
        "operator",
        "json",
        "math",
        "re",
        "statistics",
        "typing",
    }
    allowed = ("compacting_client.core.", "compacting_client.errors.", "orjson")
    for file in (file for file in FILES if part(file) == "core"):
        for name in imports(tree(file)):
            assert name.partition(".")[0] in pure or name.startswith(allowed), f"{file.name} imports {name}"
        calls = {ast.unparse(node.func) for node in ast.walk(tree(file)) if isinstance(node, ast.Call)}
        assert not calls & {"open", "print", "input", "exec", "eval", "__import__"}, file


INWARD = {
    "errors": {"report"},  # for annotations only
    "core": {"core", "errors"},
    "validation": {"errors"},
    "formats": {"core", "formats"},
    "policies": {"core", "errors", "policies", "validation"},
    "memory": {"core", "errors", "memory", "validation"},
    "testing": {"errors", "formats", "testing"},
    "events": set(),
    "logs": {"errors", "events"},
    "savings": {"formats"},
    "report": {"events", "formats", "savings"},
    "account": {"core", "events", "formats", "report", "savings"},
}


@pytest.mark.parametrize("name", INWARD)
def test_imports_point_inward(name: str) -> None:
    """A part of the package knows only what lies further in."""
    found = {
        imported.split(".")[1]
        for file in FILES
        if part(file) == name
        for imported in imports(tree(file))
        if imported.startswith("compacting_client.")
    }
    assert found <= INWARD[name]


@files
def test_no_sdk_is_imported(file: Path) -> None:
    """No SDK at all in the package: bindings know clients by their classes' names, formats know bodies.  A store may ask for its own extra."""
    own = BY_EXTRA.get(file.relative_to(PACKAGE).as_posix())
    assert not {name for name in imports(tree(file)) if name.partition(".")[0] in SDKS - LISTS - {own}}
    assert not {name for name in imports(tree(file), at_run_time=True, at_top=True) if name.partition(".")[0] == own}
    assert not {name for name in imports(tree(file), at_top=True) if name.partition(".")[0] in LISTS}


def test_only_declared_dependencies_are_imported() -> None:
    """What is imported from elsewhere is in the standard library, in `dependencies` or an extra's, and every dependency is used."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    assert listed is not None
    declared = set(re.findall(r'"([A-Za-z0-9_-]+)', listed[1]))
    used = {name.partition(".")[0] for file in FILES for name in imports(tree(file), at_run_time=True)}
    assert used - set(sys.stdlib_module_names) - {"compacting_client"} - LISTS == declared | set(BY_EXTRA.values())
    assert all(re.search(rf'^{extra} = \["{extra}>=', project, re.MULTILINE) for extra in BY_EXTRA.values())


def test_there_are_no_import_cycles() -> None:
    """Modules can be read, and imported, in one order."""
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}
    graph = {
        name: {
            target
            for imported in imports(tree(file), at_run_time=True, at_top=True)
            for target in (imported, imported.rpartition(".")[0])
            if target in names and target != name and not name.startswith(f"{target}.")
        }
        for name, file in names.items()
    }
    done: set[str] = set()
    while ready := {name for name, needs in graph.items() if name not in done and needs <= done}:
        done |= ready
    assert set(graph) - done == set()


@files
def test_provider_names_stay_in_their_places(file: Path) -> None:
    """Code outside formats, bindings and testing names no provider; docstrings only where they tell users what to pass."""
    if part(file) in NAMES_PROVIDERS:
        return
    documentation = docstrings(file)
    for node in ast.walk(tree(file)):
        texts = [getattr(node, name, None) for name in ("id", "attr", "arg", "name", "module", "value")]
        if id(node) in documentation and file.name in SAYS_WHAT_TO_PASS:
            continue
        named = [text for text in texts if isinstance(text, str) and PROVIDERS.search(text)]
        assert not named, f"line {getattr(node, 'lineno', '?')}: {named}"


def test_the_shell_asks_no_policy_what_it_is() -> None:
    """No `isinstance` on a policy, and concrete policies are known to the settings (a number is one), the presets and the public names only."""
    for file in FILES:
        where = str(file.relative_to(PACKAGE))
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "type"):
                assert "policy" not in ast.unparse(node.args[0]).lower(), where
        if part(file) != "policies" and where not in ("__init__.py", "presets.py", "settings.py"):
            concrete = [name for name in imports(tree(file)) if name.startswith("compacting_client.policies.")]
            assert set(concrete) <= {"compacting_client.policies.Policy"}, where


def test_plugs_of_the_shell_are_all_performed_in_both_ways() -> None:
    """`run` and `arun` know the same steps: what one performs, the other performs too."""
    shell = next(file for file in FILES if file.name == "shell.py")
    steps = {
        node.name: {
            ast.unparse(case.pattern) for each in ast.walk(node) if isinstance(each, ast.Match) for case in each.cases
        }
        for node in ast.walk(tree(shell))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in ("run", "arun")
    }
    assert len(steps["run"]) > 3
    assert steps["run"] == steps["arun"]


WITHOUT_EXTRAS = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is not installed")

sys.meta_path.insert(0, Blocked())
import compacting_client
for module in pkgutil.walk_packages(compacting_client.__path__, "compacting_client."):
    importlib.import_module(module.name)
assert compacting_client.compact([{{"role": "user", "content": "Hi"}}], max_tokens=5)
try:
    compacting_client.compacting(object(), 1000)
except compacting_client.UnsupportedClientError as error:
    assert "pass a client of the OpenAI, Anthropic or Google Gen AI SDK" in str(error)
print(*sorted(set(sys.modules) & {blocked}))
"""


def test_it_works_with_no_extra_installed() -> None:
    """Every module can be imported, and plain functions run, where no SDK can be."""
    program = WITHOUT_EXTRAS.format(blocked=SDKS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


@files
def test_files_and_functions_are_short(file: Path) -> None:
    """No file over 400 lines; no function over 40, its signature and docstring aside."""
    assert len(file.read_text(encoding="utf-8").splitlines()) <= FILE_LINES
    for node in ast.walk(tree(file)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if id(getattr(node.body[0], "value", None)) in docstrings(file) else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert lines <= FUNCTION_LINES, node.name


@files
def test_every_module_and_public_name_is_documented(file: Path) -> None:
    """Modules have a docstring, and so has every function and class that `__all__` names."""
    assert ast.get_docstring(tree(file))
    exported: list[str] = next(
        (
            ast.literal_eval(node.value)
            for node in tree(file).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ),
        [],
    )
    for node in tree(file).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name in exported:
            assert ast.get_docstring(node), node.name


@files
def test_nothing_of_a_machine_is_in_the_code(file: Path) -> None:
    """No absolute path of a home or a temporary folder."""
    assert not re.search(r"(?<![\w./])/(home|root|tmp|work|Users|var)/", file.read_text(encoding="utf-8"))
