"""scripts/find_java.py against fake Java executables."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from skewless.spark.finding_java import major_version

SCRIPT = Path(__file__).parents[2] / "scripts" / "find_java.py"
_SPEC = importlib.util.spec_from_file_location("find_java", SCRIPT)
assert _SPEC is not None
assert _SPEC.loader is not None
find_java = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(find_java)

Look: TypeAlias = Callable[..., Path | None]
VERSION_LINES = {
    'java version "1.8.0_402"': 8,
    'openjdk version "1.8.0_422"': 8,
    'openjdk version "11.0.24" 2024-07-16': 11,
    'openjdk version "17.0.15" 2025-04-15': 17,
    'openjdk version "17.0.12" 2024-07-16 LTS': 17,
    'java version "17.0.10" 2024-01-16 LTS': 17,
    'openjdk version "17" 2021-09-14': 17,
    'openjdk version "21-ea" 2023-09-19': 21,
    'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.4" 2024-07-16': 21,
}


def fake_java(home: Path, line: str, *, module: bool = True, says_home: Path | None = None) -> Path:
    """Write `home`/bin/java, which answers like Java: on standard error."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    settings = f"    java.home = {says_home}\n" if says_home else ""
    executable.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --add-modules=*) exit {0 if module else 1};; esac\n'
        f"/bin/cat >&2 <<'END'\n{settings}{line}\nEND\n"
    )
    executable.chmod(0o755)
    return home


def version_line(version: int) -> str:
    return next(line for line, major in VERSION_LINES.items() if major == version)


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """Return a search that sees nothing of this machine."""

    def found(
        folder: Path, *, java_home: Path | None = None, path: Path | None = None
    ) -> Path | None:
        monkeypatch.setenv("PATH", str(path) if path else "")
        monkeypatch.setenv("JAVA_HOME", str(java_home) if java_home else "")
        java = find_java.search([folder])
        return None if java is None else java.home

    return found


@pytest.mark.parametrize(("line", "version"), VERSION_LINES.items())
def test_major_version_is_read_whoever_the_vendor_is(line: str, version: int) -> None:
    assert major_version(line) == version


def test_text_without_a_version_has_none() -> None:
    assert major_version("bash: java: command not found") is None


@pytest.mark.parametrize(("line", "version"), VERSION_LINES.items())
def test_java_17_and_later_serve_and_older_do_not(
    look: Look, tmp_path: Path, line: str, version: int
) -> None:
    home = fake_java(tmp_path / "a-java", line)
    assert look(tmp_path) == (home if version >= 17 else None)


def test_java_home_comes_before_path_and_path_before_folders(look: Look, tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", version_line(21))
    on_path = fake_java(tmp_path / "on_path", version_line(21))
    folder = tmp_path / "folder"
    inside = fake_java(folder / "inside", version_line(17))
    both = {"java_home": named, "path": on_path / "bin"}
    assert look(folder, **both) == named
    assert look(folder, path=on_path / "bin") == on_path
    assert look(folder) == inside


def test_a_java_home_that_is_too_old_is_passed_over(look: Look, tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", version_line(11))
    inside = fake_java(tmp_path / "folder" / "inside", version_line(17))
    assert look(tmp_path / "folder", java_home=old) == inside


def test_the_lowest_version_that_serves_is_taken_from_a_folder(look: Look, tmp_path: Path) -> None:
    for version in (8, 11, 21):
        fake_java(tmp_path / f"java-{version}", version_line(version))
    lowest = fake_java(tmp_path / "z-java-17", version_line(17))
    assert look(tmp_path) == lowest


def test_a_runtime_without_the_module_that_spark_demands_does_not_serve(
    look: Look, tmp_path: Path
) -> None:
    fake_java(tmp_path / "a-java", version_line(17), module=False)
    whole = fake_java(tmp_path / "b-java", version_line(21))
    assert look(tmp_path) == whole


def test_java_on_path_may_be_a_link_or_a_wrapper(look: Look, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", version_line(17))
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert look(tmp_path / "none", path=links) == home
    wrapper = fake_java(tmp_path / "wrapper", version_line(17), says_home=home)
    assert look(tmp_path / "none", path=wrapper / "bin") == home


def test_macos_installations_are_found(look: Look, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "temurin-17.jdk" / "Contents" / "Home", version_line(17))
    assert look(tmp_path) == home


def test_a_broken_java_is_passed_over(look: Look, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)
    home = fake_java(tmp_path / "whole", version_line(17))
    assert look(tmp_path) == home


def test_nothing_found_is_one_line_that_says_what_to_install(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert look(tmp_path) is None
    for way in ("search", "install_with_apt", "install_with_pip"):
        monkeypatch.setattr(find_java, way, lambda folders: None)
    assert find_java.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "Java 17" in said.err
    assert "JAVA_HOME" in said.err


def test_apt_tries_the_next_package_where_the_first_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = []

    def run(*command: str) -> bool:
        commands.append(" ".join(command))
        if "default-jre-headless" in command:
            fake_java(tmp_path / "default-java", version_line(21))
            return True
        return "update" in command

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(find_java, "_run", run)
    monkeypatch.setattr(find_java.os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        find_java.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None
    )
    monkeypatch.setattr(find_java, "SYSTEM_FOLDERS", (tmp_path,))
    monkeypatch.setattr(find_java, "PROJECT", tmp_path)
    assert find_java.main() == 0
    assert capsys.readouterr().out == f"{tmp_path / 'default-java'}\n"
    assert [command.split()[-1] for command in commands] == [
        "update",
        "openjdk-17-jre-headless",
        "default-jre-headless",
    ]
