"""A receiver of webhooks for the tests: checks each message with the library of the Standard Webhooks project.

Usage: webhooks.py FOLDER [--port PORT] [--certificate FILE --key FILE]

It prints its port, and appends each message to FOLDER/messages.jsonl. FOLDER/secret has the secret to check with.
FOLDER/behaviour has statuses instead of 200, one in a line: "500" for every message, "422 TEXT" for those whose body has
TEXT; "hang" answers nothing, "slow" takes its time.
"""

import argparse
import json
import pathlib
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--certificate")
parser.add_argument("--key")
arguments = parser.parse_args()
lock = threading.Lock()


def read(name):
    try:
        return (arguments.folder / name).read_text()
    except FileNotFoundError:
        return ""


def status_of(body):
    for line in read("behaviour").splitlines():
        status, _, text = line.partition(" ")
        if text in body:
            if status == "hang":
                time.sleep(60)
            if status == "slow":
                time.sleep(0.5)
                return 200
            return int(status)
    return 200


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            Webhook(read("secret").strip()).verify(body, headers)
            verified = True
        except WebhookVerificationError:
            verified = False
        status = status_of(body) if verified else 401
        message = {
            "id": headers.get("webhook-id"),
            "path": self.path,
            "type": headers.get("content-type"),
            "signatures": len(headers.get("webhook-signature", "").split()),
            "verified": verified,
            "status": status,
            "body": json.loads(body),
        }
        with lock, open(arguments.folder / "messages.jsonl", "a") as file:
            file.write(json.dumps(message) + "\n")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64


server = Server(("127.0.0.1", arguments.port), Receiver)
if arguments.certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(arguments.certificate, arguments.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
