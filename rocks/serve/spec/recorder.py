# recorder.py - forwards requests to a server and records them for fixtures.
import http.client, http.server, json, threading


class Recorder:
    """Listens on a free port and forwards requests to `port`; `requests` lists the requests that have arrived."""

    def __init__(self, port):
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kept = ("content-type", "content-encoding", "inference-header-content-length", "accept-encoding")
                outer.requests.append({
                    "method": self.command, "path": self.path, "body": body.hex(),
                    "headers": {k: v for k, v in self.headers.items() if k.lower() in kept}})
                target = http.client.HTTPConnection("127.0.0.1", port)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                target.request(self.command, self.path, body, headers)
                answer = target.getresponse()
                data = answer.read()
                outer.requests[-1]["status"] = answer.status
                self.send_response(answer.status)
                for k, v in answer.getheaders():
                    if k.lower() not in ("transfer-encoding", "content-length", "connection", "date"):
                        self.send_header(k, v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def save(self, path, names):
        assert len(names) == len(self.requests), (len(names), len(self.requests))
        with open(path, "w") as file:
            for name, request in zip(names, self.requests):
                file.write(json.dumps({"name": name, **request}, sort_keys=True) + "\n")
