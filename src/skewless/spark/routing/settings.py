"""Arguments of the verbs that may also be settings of the session: `spark.skewless.<name>`."""

from __future__ import annotations

from typing import Any

_UNTRUSTED = "spark.skewless.untrustedKeys"


def given_or_set(value: Any, name: str, spark: Any) -> Any:
    """Return the argument, or else the setting `spark.skewless.<name>`, or None."""
    return value if value is not None else spark.conf.get(f"spark.skewless.{name}", None)


def are_untrusted(untrusted_keys: Any, spark: Any) -> bool:
    """Return whether strangers choose the keys: the argument, or else the setting."""
    name, value = "untrusted_keys", untrusted_keys
    if value is None:
        name, value = _UNTRUSTED, spark.conf.get(_UNTRUSTED, "false")
    text = str(value).lower()
    if not isinstance(value, bool | str) or text not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return text == "true"
