"""What pip is told: the bounds in pyproject.toml, the versions in constraints.txt, and that no
import is undeclared.
"""

import ast
import re
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGES = ("course_utils", "course_microscope", "course_lessons", "course_tools")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEAST, LIMIT = (
    int(n) for n in re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
)
EXTRAS = PROJECT["optional-dependencies"]
NAME = PROJECT["name"]
LEARNER = [Requirement(line) for line in PROJECT["dependencies"]]
AUTHOR = LEARNER + [Requirement(line) for line in EXTRAS["teach"]]
CONTRIBUTOR = AUTHOR + [Requirement(line) for line in EXTRAS["test"] if not line.startswith(NAME)]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if not line.startswith("#")]
SYSTEMS = {
    "Linux": {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": "x86_64",
    },
    "macOS": {
        "sys_platform": "darwin",
        "platform_system": "Darwin",
        "os_name": "posix",
        "platform_machine": "arm64",
    },
    "Windows": {
        "sys_platform": "win32",
        "platform_system": "Windows",
        "os_name": "nt",
        "platform_machine": "AMD64",
    },
}


@cache
def _imports(file: Path) -> set[str]:
    """The top-level names that a Python file imports, anywhere in its code, without the standard
    library's and ours.
    """
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.split(".")[0])
    ours = {*PACKAGES, *(file.stem for file in (ROOT / "tests").rglob("*.py"))}
    return found - set(sys.stdlib_module_names) - {"tomllib"} - ours  # Python's own since 3.11


_distributions = cache(packages_distributions)  # it reads every installed package's list of files


def _undeclared(files, declared: list[Requirement]) -> set[str]:
    names = {canonicalize_name(requirement.name) for requirement in declared}
    distributions = _distributions()
    imported = set().union(*map(_imports, files))
    assert imported >= {"torch"}  # what follows rests on it
    # Python 3.10 sees only what a wheel calls its top level, and some do not
    unnamed = {"bs4": ["beautifulsoup4"]}
    own = {
        name: {canonicalize_name(d) for d in distributions.get(name, unnamed.get(name, [name]))}
        for name in imported
    }
    return {name for name in imported if not own[name] & names}


def test_every_import_is_declared():
    learner = [file for name in PACKAGES[:2] for file in (ROOT / name).rglob("*.py")]
    author = [*learner, *(ROOT / PACKAGES[2]).rglob("*.py")]
    everything = [*author, *(ROOT / "tests").rglob("*.py"), ROOT / "conftest.py"]
    # dask is for who has a cluster: CONTRIBUTING says what to install
    assert _undeclared(learner, LEARNER) <= {"dask"}
    assert _undeclared(author, AUTHOR) <= {"dask"}
    assert _undeclared(everything, CONTRIBUTOR) <= {"dask", "tests"}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("minor", range(LEAST, LIMIT))
def test_the_constraints_pin_one_version_that_the_bounds_allow(system, minor):
    here = SYSTEMS[system] | {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.9"}
    here |= {
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    pins = [pin for pin in PINS if not pin.marker or pin.marker.evaluate(here)]
    versions = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(versions) == len(pins)
    for requirement in CONTRIBUTOR:
        if not requirement.marker or requirement.marker.evaluate(here):
            assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), (
                requirement
            )


def test_the_constraints_are_versions_and_nothing_else():
    assert all(
        re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line) for line in LINES if not line.startswith("#")
    )
    # torch's CPU and CUDA builds are both meant
    assert "+" not in "".join(str(pin.specifier) for pin in PINS)


def test_conda_takes_the_packages_from_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip = environment["dependencies"][0], environment["dependencies"][-1]
    assert pip == {"pip": ["-e .[test]"]}
    assert LEAST <= int(python.removeprefix("python=3.")) < LIMIT


def test_binder_builds_on_the_same_torch_and_a_python_of_ours():
    torch = {line.split(";")[0] for line in PROJECT["dependencies"] if line.startswith("torch==")}
    build = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8")
    assert any(f'"{version}"' in build for version in torch)
    assert 'pip install --no-cache-dir -e ".[teach]"' in build  # TEACHING grades in it
    runtime = (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert LEAST <= int(runtime.removeprefix("python-3.")) < LIMIT


def test_the_readme_names_the_pythons():
    assert f"Python 3.{LEAST} to 3.{LIMIT - 1}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_workflows_try_every_python_and_every_system():
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    )["jobs"]
    tried = jobs["fast"]["strategy"]["matrix"]["include"]
    assert {entry["python"] for entry in tried} == {f"3.{minor}" for minor in range(LEAST, LIMIT)}
    assert {entry["os"] for entry in tried} == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_the_version_has_its_changes():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {PROJECT['version'].removesuffix('.dev0')} " in changes
