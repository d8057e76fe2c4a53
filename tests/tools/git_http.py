"""Serves the bare repositories in a folder over smart HTTP, through `git http-backend`, to one user with one password.

git_http.py FOLDER USER PASSWORD: prints its port, then the length of each answer's body, and ends with its standard input.
"""

import base64
import http.server
import os
import subprocess
import sys
import threading

folder, user, password = sys.argv[1:]
expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") != expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": folder,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": user,
            "REMOTE_ADDR": "127.0.0.1",
        }
        answer = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        print(len(content), flush=True)
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
