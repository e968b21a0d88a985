"""A model server on loopback that does what it is told."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def wire_reply(content: str | None = None, *calls: Any, prompt: int = 100, completion: int = 10) -> dict[str, Any]:
    wire = [
        {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, (n, a) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": wire}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


class Server:
    """Answers requests from a list, or by a function of the request: a document, or (status, text, headers), or the seconds for
    which it says nothing before it hangs up. It keeps the requests, when they came, and how many were in flight at once."""

    def __init__(self) -> None:
        self.answers: Any = []
        self.requests, self.headers, self.at = list[Any](), list[dict[str, str]](), list[float]()
        self.in_flight = self.peak = 0
        self.lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with owner.lock:
                    owner.requests.append(request)
                    owner.headers.append(headers)
                    owner.at.append(time.monotonic())
                    owner.in_flight += 1
                    owner.peak = max(owner.peak, owner.in_flight)
                try:
                    answer = owner.answer(request, headers)
                finally:
                    with owner.lock:
                        owner.in_flight -= 1
                if isinstance(answer, float):
                    time.sleep(answer)
                    self.close_connection = True
                    return
                status, text, extra = answer if isinstance(answer, tuple) else (200, json.dumps(answer), {})
                body = text.encode()
                self.close_connection = "Content-Length" in extra  # a wrong one: nothing more can be sent
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **extra}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None: ...  # clients that time out or are killed hang up

        self._http = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: dict[str, Any], headers: dict[str, str]) -> Any:
        """What the server does with a request."""
        return self.answers(request) if callable(self.answers) else self.answers.pop(0)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
