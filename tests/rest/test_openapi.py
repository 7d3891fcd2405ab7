"""The OpenAPI document is sound, and says what is served."""

import re

import pytest


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def operations(document):
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            yield verb, path, operation


def test_what_is_referred_to_is_there(document):
    assert document["openapi"] == "3.1.0" and document["info"] == {"title": "echo", "version": "1"}
    for reference in references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert node


def test_operations_have_names_of_their_own_and_all_variables(document):
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names)) == 17
    for _, path, operation in operations(document):
        given = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert given == set(re.findall(r"{(\w+)}", path))
        assert all(parameter["required"] == (parameter["in"] == "path") for parameter in operation["parameters"])
        assert set(operation["responses"]) == {"2XX" if path.startswith("/api/") else "200", "default"}


def test_every_route_that_it_names_is_served(document, server):
    for verb, path, operation in operations(document):
        if "Wait" in operation["operationId"] or "Hold" in operation["operationId"]:
            continue
        concrete = re.sub(r"{\w+}", "x", path)
        assert server.request(verb.upper(), concrete).status not in (404, 501), (verb, path)


def test_bodies_and_answers_are_of_their_kind(document):
    paths = document["paths"]
    echo = paths["/v1/things/{id}/echo"]["post"]
    assert echo["summary"] == "Says it again."
    assert echo["requestBody"]["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Question"}}}
    assert "security" not in echo and paths["/v1/things/{id}"]["get"]["security"] == []
    assert set(paths["/v1/things/{id}/files"]["post"]["requestBody"]["content"]) == {"application/octet-stream", "multipart/form-data"}
    assert set(paths["/v1/things/{id}/files/{file_path}"]["get"]["responses"]["200"]["content"]) == {"application/octet-stream"}
    assert set(paths["/v1/things/{id}/stream"]["post"]["responses"]["200"]["content"]) == {"text/event-stream"}
    assert {p["name"] for p in paths["/v1/things"]["get"]["parameters"]} >= {"id", "text", "count", "since", "tags", "raw"}


def test_schemas_say_how_values_are_written(document):
    schemas = document["components"]["schemas"]
    fields = schemas["Everything"]["properties"]
    assert fields["anInt64"] == {"type": "string", "format": "int64"}
    assert fields["colour"]["enum"] == ["COLOUR_DEEP", "COLOUR_UNSPECIFIED", "COLOUR_RED", "COLOUR_BLUE"]
    assert fields["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert fields["points"] == {"type": "array", "items": {"$ref": "#/components/schemas/Point"}}
    assert fields["point"] == {"anyOf": [{"$ref": "#/components/schemas/Point"}, {"type": "null"}]}
    assert fields["at"]["anyOf"][0] == {"type": "string", "format": "date-time"}
    assert not [name for name in schemas if name.endswith("Entry")]
