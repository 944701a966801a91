"""The description of the translation service: in the OpenAPI format for programs, and as an HTML page for people."""

from html import escape
from typing import Any

from regard.serve.question import MOST_CHARACTERS, MOST_TEXTS


def description(name: str) -> dict[str, Any]:
    """Return the OpenAPI description of the service, as values for `json.dumps`.

    Source: OpenAPI Specification 3.1.
    """
    text = {"type": "string", "maxLength": MOST_CHARACTERS}
    pair = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    translation = {
        "text": {"type": "string"},
        "score": {"type": "number", "description": "mean log-probability of a piece, in nats; 0 is certain"},
        "expected_chrf": {
            "type": ["number", "null"],
            "minimum": 0,
            "maximum": 100,
            "description": "the chrF that translations of dev texts with this score had on average; null = not known",
        },
        "alignment": {
            "type": "array",
            "items": pair,
            "description": "pairs (source word, target word); words are divided at white space and counted from 0",
        },
        "unknown": texts("characters that the translator does not know"),
        "missing": texts("names, numbers and addresses of the text that the translation lacks"),
        "parts": texts("the translations of the sentences, if the text was too long and was divided; otherwise empty"),
        "untranslated": {"type": "boolean", "description": "whether the text was too long and could not be divided"},
        "unlike": texts("remarks that the text is unlike the training texts, or that the translation is improbable"),
    }
    question = {"texts": {"type": "array", "items": text, "maxItems": MOST_TEXTS}}
    answer = {"translations": {"type": "array", "items": object_schema(translation)}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Translation by {name}", "version": "1"},
        "paths": {
            "/translate": {
                "post": {
                    "summary": "Translate texts",
                    "requestBody": {"required": True, "content": json_content(object_schema(question))},
                    "responses": {
                        "200": {
                            "description": "a translation for each text, in order",
                            "content": json_content(object_schema(answer)),
                        },
                        "400": {"description": "the request is not valid; error gives the reason"},
                        "413": {"description": "the request is too large"},
                        "503": {"description": "too many texts wait to be translated; send the request again later"},
                    },
                }
            },
            "/health": {
                "get": {
                    "summary": "Say whether the service runs",
                    "responses": {
                        "200": {
                            "description": "the translator's name",
                            "content": json_content(
                                object_schema({"status": {"const": "ok"}, "translator": {"type": "string"}})
                            ),
                        }
                    },
                }
            },
        },
    }


def texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def json_content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def page(name: str, address: str, token: str | None) -> str:
    bearer = f"-H 'Authorization: Bearer {token}' " if token else ""
    command = f"curl {address}translate {bearer}-H 'Content-Type: application/json' -d '{{\"texts\": [\"…\"]}}'"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Translation by {escape(name)}</title>
<style>
body {{ font: 1rem/1.6 sans-serif; max-width: 45rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
</style>
<h1>Translation by {escape(name)}</h1>
<p>Send texts, and get a translation of each, with its score and its word alignment:</p>
<pre>{escape(command)}</pre>
<p>At most {MOST_TEXTS} texts in a request, and {MOST_CHARACTERS:,} characters in a text.
<a href="openapi.json">openapi.json</a> describes the service in the OpenAPI format, <a href="health">health</a> says
whether it runs.</p>
</html>
"""
