"""A running explorer or translation service, with a method that sends requests to it."""

import http.client
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Running:
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self, path: str, content: Any = None, method: str = "POST", body: bytes | None = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Return status, content and headers of an answer; JSON and text are decoded."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, json.dumps(content).encode() if body is None else body, sent)
        answer = connection.getresponse()
        text, kind = answer.read(), answer.headers.get("content-type", "")
        connection.close()
        content = (
            json.loads(text)
            if kind.startswith("application/json")
            else text.decode()
            if kind.startswith("text/")
            else text
        )
        return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}
