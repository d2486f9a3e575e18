"""Hostile text in every place of a request that takes free text, as the API's description tells.

A field is free if the description lets the text in: a new one is found without being listed here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_SAMPLES = ("name", "date", "0" * 64, "0" * 32, "hw.name", "2026-11-20T01:02:03Z", "2026-11-20", "")
"""One of them fits each pattern that hostile text does not fit."""


def hostile(number: int) -> str:
    """A link elsewhere, an image that is not there and calls a script, and a way out of quotes."""
    return f"'\"><a href=//evil.example>{number}</a><img src=x onerror=alert({number})>"


@dataclass
class Strangers:
    """Plants text, each place its own, and remembers where."""

    document: Json
    planted: dict[str, str] = field(default_factory=dict)
    """The place, such as ``POST /api/v1/jobs requires{}``, and its text."""

    def body(self, call: str, given: Json, *, skip: frozenset[str] = frozenset()) -> Json:
        """``given`` with all free text of the call's body planted, other values left alone.

        Args:
            call: method and path, as ``POST /api/v1/jobs``.
            given: a good body; lists, mappings and values that it lacks are added only where some
                free text stands in them.
            skip: places that are left as they are given.
        """
        method, path = call.split(" ")
        content = self.document["paths"][path][method.lower()]["requestBody"]["content"]
        schema = content["application/json"]["schema"]
        return self._planted(schema, copy.deepcopy(given), call + " ", skip)

    def parameter(self, call: str, name: str) -> str:
        """Text for a parameter of a call's query."""
        return self._text(f"{call} ?{name}")

    def fields(self) -> set[str]:
        """Every place of every body, and of every changing call's query, that takes such text."""
        places: set[str] = set()
        for path, calls in self.document["paths"].items():
            for method, operation in calls.items():
                call = f"{method.upper()} {path}"
                for kind in operation.get("requestBody", {}).get("content", {}).values():
                    places |= set(self._places(kind["schema"], f"{call} "))
                if method != "get":
                    places |= {
                        f"{call} ?{one['name']}"
                        for one in operation.get("parameters", ())
                        if one["in"] == "query" and self._free(one["schema"])
                    }
        return places

    def _text(self, place: str) -> str:
        return self.planted.setdefault(place, hostile(100 + len(self.planted)))

    def _resolve(self, schema: Json) -> Json:
        """Follow references; of several kinds the first that is not null, text before others."""
        while True:
            if "$ref" in schema:
                schema = self.document["components"]["schemas"][schema["$ref"].split("/")[-1]]
            elif "anyOf" in schema:
                kinds = [self._resolve(one) for one in schema["anyOf"]]
                schema = next(
                    (one for one in kinds if one.get("type") == "string"),
                    next(one for one in kinds if one.get("type") != "null"),
                )
            else:
                return schema

    def _free(self, schema: Json) -> bool:
        schema = self._resolve(schema)
        text = hostile(100)
        return (
            schema.get("type") == "string"
            and not {"enum", "const", "format"} & schema.keys()
            and len(text) <= schema.get("maxLength", len(text))
            and re.search(schema.get("pattern", ""), text) is not None
        )

    def _mapping(self, schema: Json) -> tuple[Json, Json] | None:
        """What keys and values of a mapping are; None for what has a fixed set of names."""
        for pattern, value in schema.get("patternProperties", {}).items():
            return {"type": "string", "pattern": pattern}, value
        value = schema.get("additionalProperties")
        return (schema.get("propertyNames", {}), value) if isinstance(value, dict) else None

    def _places(self, schema: Json, at: str, around: tuple[int, ...] = ()) -> Iterator[str]:
        """List where free text may stand; what is ``around`` is not looked into again."""
        schema = self._resolve(schema)
        if id(schema) in around:  # such as the result of one side in that of both
            return
        around = (*around, id(schema))
        if self._free(schema):
            yield at
        elif schema.get("type") == "array":
            yield from self._places(schema["items"], f"{at}[]", around)
        elif mapping := self._mapping(schema):
            if self._free(mapping[0]):
                yield f"{at}{{key}}"
            yield from self._places(mapping[1], f"{at}{{}}", around)
        for name, part in schema.get("properties", {}).items():
            yield from self._places(part, f"{at}.{name}", around)

    def _planted(self, schema: Json, given: Any, at: str, skip: frozenset[str]) -> Any:
        schema = self._resolve(schema)
        if at in skip or not any(self._places(schema, at)):
            return given
        if self._free(schema):
            return self._text(at)
        if schema.get("type") == "array":
            first = given[0] if given else self._least(schema["items"])
            rest = list(given[1:]) if given else []
            return [self._planted(schema["items"], first, f"{at}[]", skip), *rest]
        if mapping := self._mapping(schema):
            return self._planted_mapping(mapping, given or {}, at, skip)
        given = dict(given or self._least(schema))
        for name, part in schema["properties"].items():
            if self._resolve(part) is schema:
                continue
            part_value = self._planted(part, given.get(name), f"{at}.{name}", skip)
            if part_value is not None or name in given:
                given[name] = part_value
        return given

    def _planted_mapping(
        self, kinds: tuple[Json, Json], given: Json, at: str, skip: frozenset[str]
    ) -> Json:
        key, value = kinds
        name = self._text(f"{at}{{key}}") if self._free(key) else f"{self._least(key)}.strange"
        if "enum" in key:
            name = key["enum"][0]
        least = given.get(name, self._least(value))
        return {**given, name: self._planted(value, least, f"{at}{{}}", skip)}

    def _least(self, schema: Json) -> Any:
        """A small value that fits a description."""
        schema = self._resolve(schema)
        if "enum" in schema:
            return schema["enum"][0]
        known = schema.get("const", schema.get("default"))
        return self._least_of_kind(schema) if known is None else known

    def _least_of_kind(self, schema: Json) -> Any:
        kind = schema.get("type")
        if kind == "object":
            required = schema.get("required", ())
            return {name: self._least(schema["properties"][name]) for name in required}
        if kind == "array":
            return [self._least(schema["items"]) for _ in range(schema.get("minItems", 0))]
        if kind == "string" or "pattern" in schema:
            return next(one for one in _SAMPLES if re.search(schema.get("pattern", ""), one))
        return False if kind == "boolean" else max(1, schema.get("minimum", 1))
