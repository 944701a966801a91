"""Refuse HTTP requests that come neither from the server's own page nor from its user.

A page of another web site, open in the same browser, can send requests to this machine too. So a request is refused if
its header Host is not the server's address; a POST request also if it has a header Origin that is not the address of
the server's page, or if its header Content-Type is not JSON. (The browser lets a page of another site set this header
to JSON only if the server allows it, and this server does not.)

If other machines can reach the server, every request needs a secret token. The size of a request is limited.
"""

import hmac
from collections.abc import Collection
from contextlib import suppress

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""The most bytes in the body of a request."""

COOKIE = "regard-token"
"""The cookie in which the browser keeps the secret token of the server."""

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application that refuses some requests, and passes the others on to another ASGI application.

    Args:
        hosts: the accepted values of the Host header, such as "127.0.0.1:8000"; empty = every value is accepted.
        token: the secret token that every request needs: in its URL, as a cookie, or in the header "Authorization:
            Bearer TOKEN"; None = no token.
        name: what messages to the client call the server, such as "explorer".
    """

    def __init__(self, application: ASGIApp, hosts: Collection[str], token: str | None, name: str = "explorer") -> None:
        self.application = application
        self.name = name
        self.hosts = hosts
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        request = Request(scope)
        if refusal := self.refusal(request):
            status, reason = refusal
            await JSONResponse({"error": reason}, status, HEADERS)(scope, receive, send)
            return
        has_token_in_url = self.token is not None and self.is_token(request.query_params.get("token"))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if has_token_in_url:
                    headers.append("set-cookie", f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        with suppress(ClientDisconnect):  # nobody reads an answer to a request that was never complete
            await self.application(scope, receive, send_guarded)

    def refusal(self, request: Request) -> tuple[int, str] | None:
        """Return the HTTP status and the reason if the request must be refused; None if it may be answered."""
        headers = request.headers
        host = headers.get("host", "")
        if self.hosts and host not in self.hosts:
            address = f"http://{next(iter(self.hosts))}"
            return 421, f"the request was sent to {host!r}; the address of this {self.name} is {address}."
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        tokens = request.query_params.get("token"), request.cookies.get(COOKIE), bearer
        if self.token is not None and not any(map(self.is_token, tokens)):
            advice = f"open the address that this {self.name} printed, or send its token as Authorization: Bearer TOKEN"
            return 401, f"the request has no valid token; {advice}."
        if request.method == "POST":
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

    def is_token(self, text: str | None) -> bool:
        """Return whether a text is the secret token, in a time that does not depend on where the two texts differ."""
        return hmac.compare_digest((text or "").encode(), (self.token or "").encode())
