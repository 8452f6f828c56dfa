"""Arguments of the verbs that may also be settings of the session: `spark.skewless.<name>`."""

from __future__ import annotations

from typing import Any

from skewless.plumbing.arguments import MOST_WORKERS, seed_number, whole

MEASURED_SPEEDS = "measuredSpeeds"


def setting(name: str, spark: Any) -> Any:
    """Return the setting `spark.skewless.<name>`, or None."""
    return spark.conf.get(f"spark.skewless.{name}", None)


def _given(value: Any, name: str, spark: Any) -> tuple[Any, str]:
    """Return the argument, or else the setting, or None; and what a message calls it."""
    return (value, name) if value is not None else (setting(name, spark), f"spark.skewless.{name}")


def given_seed(seed: Any, spark: Any) -> int | None:
    """Return the seed that was given, or None."""
    value, name = _given(seed, "seed", spark)
    return None if value is None else seed_number(value, name)


def given_workers(workers: Any, spark: Any) -> int | None:
    """Return the number of workers that was given, or None."""
    value, name = _given(workers, "workers", spark)
    return None if value is None else whole(value, name, least=1, most=MOST_WORKERS)


def are_untrusted(untrusted_keys: Any, spark: Any) -> bool:
    """Return whether strangers choose the keys: the argument, or else the setting."""
    if untrusted_keys is None:
        return _switch(spark, "untrustedKeys")
    return _is_true("untrusted_keys", untrusted_keys)


def are_speeds_measured(spark: Any) -> bool:
    """Return whether plans use the times that workers measure."""
    return _switch(spark, MEASURED_SPEEDS)


def _switch(spark: Any, name: str) -> bool:
    value = setting(name, spark)
    return value is not None and _is_true(f"spark.skewless.{name}", value)


def _is_true(name: str, value: Any) -> bool:
    text = str(value).lower()
    if not isinstance(value, bool | str) or text not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return text == "true"
