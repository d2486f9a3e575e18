"""Everything that a request may say has an end: read off the API's own description."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from service import api
from service.app import create_app
from service.http.strict_route import StrictRoute
from service.settings import Settings

pytestmark = pytest.mark.both_databases

Schema = dict[str, Any]


@pytest.fixture(scope="module")
def description() -> Schema:
    return create_app(Settings(database_url="sqlite:///unused.sqlite3")).openapi()


def asked(description: Schema) -> Iterator[tuple[str, Schema]]:
    """Every parameter and body that some call takes, with its schema."""
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []):
                yield f"{method} {path} {parameter['name']}", parameter["schema"]
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]
                kind = (
                    "application/gzip" if path.endswith(("/trace", "/log")) else "application/json"
                )
                assert list(content) == [kind]
                yield f"{method} {path}", content[kind]["schema"]


def unbounded(place: str, schema: Schema, known: Schema, seen: set[str]) -> Iterator[str]:
    """Where ``schema`` lets something be of any size, or takes fields that nobody knows."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            seen.add(name)
            yield from unbounded(name, known[name], known, seen)
        return
    for choice in schema.get("anyOf", []):
        yield from unbounded(place, choice, known, seen)
    if not has_end(schema):
        yield f"{place}: {schema}"
    for name, field in schema.get("properties", {}).items():
        yield from unbounded(f"{place}.{name}", field, known, seen)
    for word in ("items", "propertyNames", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from unbounded(f"{place} {word}", schema[word], known, seen)


def has_end(schema: Schema) -> bool:
    if "enum" in schema or "const" in schema:
        return True
    ends = {
        "string": text_ends,
        "integer": number_ends,
        "number": number_ends,
        "array": lambda schema: "maxItems" in schema,
        "object": object_ends,
    }
    return ends.get(schema.get("type", ""), lambda _: True)(schema)


def text_ends(schema: Schema) -> bool:
    pattern = schema.get("pattern", "")
    closed = pattern[:1] == "^" and pattern[-1:] == "$" and not set("*+") & set(pattern)
    within = any(part in pattern for part in ("{0,63}$", "{0,99}$", "{0,99})$", "{1,120}$"))
    is_time = schema.get("format") in ("date-time", "date")  # bounded by their form
    return "maxLength" in schema or closed or within or is_time


def number_ends(schema: Schema) -> bool:
    above = "maximum" in schema or "exclusiveMaximum" in schema
    return above and ("minimum" in schema or "exclusiveMinimum" in schema)


def object_ends(schema: Schema) -> bool:
    if "properties" in schema:
        return schema.get("additionalProperties") is False
    return "maxProperties" in schema or "enum" in schema.get("propertyNames", {})


def test_everything_that_a_request_may_say_has_an_end(description: Schema) -> None:
    known, seen = description["components"]["schemas"], set[str]()
    found = [
        fault
        for place, schema in asked(description)
        for fault in unbounded(place, schema, known, seen)
    ]
    assert len(seen) >= 15
    assert found == []


def test_a_field_without_an_end_would_be_found() -> None:
    for schema in (
        {"type": "string"},
        {"type": "string", "pattern": "^a+$"},
        {"type": "number", "minimum": 0},
        {"type": "array", "items": {"type": "null"}},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": {"type": "null"}},
        {"anyOf": [{"type": "null"}, {"type": "integer"}]},
    ):
        assert list(unbounded("here", schema, {}, set())), schema


def test_every_route_of_the_api_reads_its_body_once(client: TestClient) -> None:
    nouns = [import_module(f"service.api.{each.name}") for each in iter_modules(api.__path__)]
    routers = [noun.router for noun in nouns if hasattr(noun, "router")]
    routes = [route for one in routers for route in one.routes if isinstance(route, APIRoute)]
    assert len(routes) >= 29
    assert [route.path for route in routes if not isinstance(route, StrictRoute)] == []


def test_a_person_is_refused_with_a_page(client: TestClient) -> None:
    for address in ("/jobs/%00", "/compare?baseline=%00"):
        answer = client.get(address)
        assert answer.status_code == 400
        assert answer.headers["content-type"].startswith("text/html")
