"""Refuse HTTP requests that come neither from the server's own page nor from its user.

A page of another site, open in the same browser, can send requests to this machine too. The server recognises such
requests by three headers: Host, Origin, and Content-Type, which a page of another site may set to JSON only with the
server's permission. If the server listens on an address that other machines can reach, every request needs a secret
token. The size of a request is limited.
"""

import hmac
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from functools import partial
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 1_000_000
"""The most bytes of a request's body."""

TOKEN_SOURCES = "url", "cookie", "header"
"""The parts of a request that may contain the secret token."""

COOKIE = "regard-token"
"""The name of the cookie in which the browser keeps the token."""

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""The HTTP headers that are added to every response."""


class Guard:
    """An ASGI application that refuses some requests, and passes the others on to another application.

    Args:
        hosts: the accepted values of the Host header, such as "127.0.0.1:8000"; empty = any.
        token: the secret token that every request needs: in its URL, as a cookie, or in the header "Authorization:
            Bearer TOKEN"; None = no token.
        name: the word for the server in messages to the client.
    """

    def __init__(
        self, application: Application, hosts: Collection[str], token: str | None, name: str = "explorer"
    ) -> None:
        self.application = application
        self.name = name
        self.hosts = hosts
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self.refusal(scope, headers)
        if refusal:
            status, reason = refusal
            await send_text(send, status, reason)
            return
        given = self.token is not None and self.has_token(scope, headers, "url")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
                if given:
                    cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                    message["headers"].append((b"set-cookie", cookie.encode()))
            await send(message)

        await self.application(scope, receive, send_guarded)

    def refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return the HTTP status and the reason of a refusal; None if the request is not refused."""
        host = headers.get("host", "")
        if self.hosts and host not in self.hosts:
            address = f"http://{next(iter(self.hosts))}"
            return 421, f"the request was sent to {host!r}; the address of this {self.name} is {address}."
        if self.token is not None and not any(map(partial(self.has_token, scope, headers), TOKEN_SOURCES)):
            return 401, f"the request has no valid token; open the address that this {self.name} printed."
        if scope["method"] == "POST":
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2] != host:
                return 403, f"the request comes from a page of {origin!r}; this {self.name} answers its own page only."
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return 415, "the request must have the header Content-Type: application/json."
            length = headers.get("content-length", "")
            if not length.isdecimal():
                return 411, "the request must have the header Content-Length."
            if int(length) > MOST_BYTES:
                return 413, f"the request has {int(length):,} bytes; this {self.name} reads at most {MOST_BYTES:,}."
        return None

    def has_token(self, scope: Scope, headers: dict[str, str], source: str) -> bool:
        """Return whether a request has the right token in its "url", its "cookie" or its "header", as `source` says."""
        if source == "url":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        elif source == "header":
            given = headers.get("authorization", "").removeprefix("Bearer ")
        else:
            cookies = SimpleCookie(headers.get("cookie", ""))
            given = cookies[COOKIE].value if COOKIE in cookies else ""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


async def send_text(send: Send, status: int, text: str) -> None:
    """Send an HTTP response whose body is `text`."""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
