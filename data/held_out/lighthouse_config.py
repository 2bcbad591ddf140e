"""Layered settings for a lighthouse controller.

Settings are looked up in layers.  A later layer hides an earlier one:

1. the defaults written in this module,
2. a system file in INI format,
3. a station file in TOML format,
4. environment variables whose names begin with ``LIGHTHOUSE_``.

The merged settings are available as checked properties of the class
:class:`LighthouseConfig`.
"""

from __future__ import annotations

import configparser
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10 has no tomllib
    tomllib = None

ENV_PREFIX = "LIGHTHOUSE_"

DEFAULTS: dict[str, str] = {
    "lamp.power": "1000",
    "lamp.period": "15.0",
    "lamp.colour": "white",
    "fog.enabled": "yes",
    "station.name": "unnamed",
}

TRUE_WORDS = {"1", "yes", "true", "on"}
FALSE_WORDS = {"0", "no", "false", "off"}


class ConfigError(Exception):
    """Base class of all errors raised while reading settings."""


class ConfigFileError(ConfigError):
    """A settings file exists but cannot be read or parsed."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnknownSetting(ConfigError, KeyError):
    """A layer sets a key that no part of the controller uses."""

    def __init__(self, key: str, layer: str) -> None:
        super().__init__(key)
        self.key = key
        self.layer = layer

    def __str__(self) -> str:
        return f"unknown setting {self.key!r} in {self.layer}"


class BadSetting(ConfigError, ValueError):
    """A setting has a value of the wrong kind or out of range."""

    def __init__(self, key: str, value: str, expected: str) -> None:
        super().__init__(f"setting {key!r} is {value!r}, expected {expected}")
        self.key = key
        self.value = value


class Layer(dict):
    """A named mapping from dotted keys to strings."""

    def __init__(self, name: str, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.name = name
        for key in values:
            if key not in DEFAULTS:
                raise UnknownSetting(key, name)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Turn nested tables into one dict with dotted keys."""
    flat: dict[str, str] = {}
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, Mapping):
            flat.update(flatten(value, key + "."))
        elif isinstance(value, bool):
            flat[key] = "yes" if value else "no"
        else:
            flat[key] = str(value)
    return flat


def read_ini(path: Path) -> Layer:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with path.open(encoding="utf-8") as stream:
            parser.read_file(stream)
    except (OSError, configparser.Error) as exc:
        raise ConfigFileError(path, str(exc)) from exc
    values = {name: dict(parser[name]) for name in parser.sections()}
    return Layer(path.name, flatten(values))


def read_toml(path: Path) -> Layer:
    if tomllib is None:
        raise ConfigFileError(path, "reading TOML needs Python 3.11 or later")
    try:
        with path.open("rb") as stream:
            values = tomllib.load(stream)
    except (OSError, tomllib.TOMLDecodeError) as exc:
        raise ConfigFileError(path, str(exc)) from exc
    return Layer(path.name, flatten(values))


def read_environ(environ: Mapping[str, str]) -> Layer:
    """Read LIGHTHOUSE_LAMP_POWER as the setting lamp.power, and so on."""
    values = {}
    for name, value in environ.items():
        if name.startswith(ENV_PREFIX):
            key = name[len(ENV_PREFIX):].lower().replace("_", ".", 1)
            values[key] = value
    return Layer("environment", values)


READERS = {".ini": read_ini, ".toml": read_toml}


class LighthouseConfig:
    """The settings of one lighthouse, merged from several layers."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = [Layer("defaults", DEFAULTS), *layers]

    @classmethod
    def load(cls, *paths: Path, environ: Mapping[str, str] | None = None):
        layers = []
        for path in paths:
            reader = READERS.get(path.suffix)
            if reader is None:
                raise ConfigFileError(path, f"unknown file type {path.suffix!r}")
            if path.exists():
                layers.append(reader(path))
        layers.append(read_environ(os.environ if environ is None else environ))
        return cls(*layers)

    def source(self, key: str) -> Layer:
        """Return the topmost layer that has the key."""
        for layer in reversed(self.layers):
            if key in layer:
                return layer
        raise UnknownSetting(key, "lookup")

    def get(self, key: str) -> str:
        return self.source(key)[key]

    def get_float(self, key: str, low: float, high: float) -> float:
        value = self.get(key)
        expected = f"a number from {low:g} to {high:g}"
        try:
            number = float(value)
        except ValueError:
            raise BadSetting(key, value, expected) from None
        if not low <= number <= high:
            raise BadSetting(key, value, expected)
        return number

    def get_bool(self, key: str) -> bool:
        value = self.get(key).strip().lower()
        if value in TRUE_WORDS:
            return True
        if value in FALSE_WORDS:
            return False
        raise BadSetting(key, value, "yes or no")

    @property
    def lamp_power(self) -> float:
        return self.get_float("lamp.power", 10, 5000)

    @property
    def lamp_period(self) -> float:
        return self.get_float("lamp.period", 1, 120)

    @property
    def fog_enabled(self) -> bool:
        return self.get_bool("fog.enabled")

    def describe(self) -> str:
        lines = []
        for key in sorted(DEFAULTS):
            layer = self.source(key)
            lines.append(f"{key:<18} {layer[key]:<20} ({layer.name})")
        return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder, "system.ini")
        station = Path(folder, "station.toml")
        system.write_text("[lamp]\npower = 1500\ncolour = red\n", encoding="utf-8")
        station.write_text('[station]\nname = "Gull Rock"\n', encoding="utf-8")
        paths = [system] if tomllib is None else [system, station]
        environ = {"LIGHTHOUSE_FOG_ENABLED": "off", "LIGHTHOUSE_LAMP_PERIOD": "slow"}
        config = LighthouseConfig.load(*paths, environ=environ)
    print(config.describe())
    print("power:", config.lamp_power, "fog:", config.fog_enabled)
    try:
        print("period:", config.lamp_period)
    except BadSetting as exc:
        print("error:", exc)


if __name__ == "__main__":
    main()
