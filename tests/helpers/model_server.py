"""A model server on loopback that does what it is told."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def said(content=None, *calls, prompt=100, completion=10):
    wire = [
        {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, (n, a) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": wire}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


class Server:
    """Answers requests from a list, or by a function of the request: a document, or (status, text, headers), or the seconds for
    which it says nothing."""

    def __init__(self):
        self.answers, self.requests, self.headers = [], [], []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.requests.append(json.loads(body))
                owner.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = owner.answers(json.loads(body)) if callable(owner.answers) else owner.answers.pop(0)
                if isinstance(answer, float):
                    time.sleep(answer)
                    return
                status, text, extra = answer if isinstance(answer, tuple) else (200, json.dumps(answer), {})
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()
