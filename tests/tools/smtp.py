"""A mail server for the tests: aiosmtpd, which behaves as the recipient's name says.

Usage: smtp.py FOLDER [--tls starttls|tls|none] [--port PORT] [--certificate FILE --key FILE] [--user NAME --password TEXT]

It prints its port, and appends each mail that it takes to FOLDER/mails.jsonl, as Python's own parser reads it.
FOLDER/behaviour can have one more behaviour for all recipients.
"""

import argparse
import asyncio
import json
import pathlib
import ssl
import sys
import time
from email import policy
from email.parser import BytesParser

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--tls", default="none")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--certificate")
parser.add_argument("--key")
parser.add_argument("--user")
parser.add_argument("--password")
arguments = parser.parse_args()


def context():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(arguments.certificate, arguments.key)
    return made


def log_in(server, session, envelope, mechanism, data):
    right = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == (
        arguments.user,
        arguments.password,
    )
    # The server answers a wrong one by itself only where nobody has.
    return AuthResult(success=right, handled=False)


class Handler:
    def __init__(self):
        # How often each address was asked for.
        self.asked = {}

    def behaviours(self, address):
        file = arguments.folder / "behaviour"
        more = file.read_text().split() if file.exists() else []
        return [address.split("@")[0].split("-")[0], *more]

    async def handle_RCPT(self, server, session, envelope, address, options):
        self.asked[address] = self.asked.get(address, 0) + 1
        behaviours = self.behaviours(address)
        if "grey" in behaviours and self.asked[address] <= 2:
            return f"451 4.7.1 <{address}>: greylisted, try again"
        if "busy" in behaviours:
            return "451 4.3.2 busy, try again"
        if "unknown" in behaviours:
            return f"550 5.1.1 <{address}>: no such user"
        if "closing" in behaviours and self.asked[address] == 1:
            return "421 4.3.2 closing"
        if "silent" in behaviours:
            await asyncio.sleep(3600)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        behaviours = self.behaviours(envelope.rcpt_tos[0])
        content = envelope.content
        if "spam" in behaviours:
            # It quotes the mail, with its key.
            body = BytesParser(policy=policy.default).parsebytes(content).get_body(("plain",)).get_content()
            return "554 5.7.1 looks like spam: " + " ".join(body.split())
        if "cut" in behaviours:
            server.transport.abort()
            return "250 OK"
        if "slow" in behaviours:
            await asyncio.sleep(1)
        if "late" in behaviours:
            self.take(server, session, envelope)
            await asyncio.sleep(3600)
        self.take(server, session, envelope)
        return "250 OK"

    def take(self, server, session, envelope):
        content = envelope.content
        mail = BytesParser(policy=policy.default).parsebytes(content)
        part = lambda kind: (found := mail.get_body((kind,))) and found.get_content()
        line = {
            "time": time.time(),
            "sender": envelope.mail_from,
            "recipients": envelope.rcpt_tos,
            "tls": server.transport.get_extra_info("ssl_object") is not None,
            "login": bool(session.authenticated),
            "ascii": content.isascii(),
            "bare_line_ends": content.replace(b"\r\n", b"").count(b"\n") + content.replace(b"\r\n", b"").count(b"\r"),
            "longest_line": max(map(len, content.split(b"\r\n"))),
            "headers": [[name, str(value)] for name, value in mail.items()],
            "kind": mail.get_content_type(),
            "parts": [part.get_content_type() for part in mail.iter_parts()],
            "defects": [str(defect) for part in mail.walk() for defect in part.defects]
            + [str(defect) for value in mail.values() for defect in value.defects],
            "text": part("plain"),
            "html": part("html"),
        }
        with open(arguments.folder / "mails.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")


async def serve():
    handler = Handler()
    options = {"hostname": "mail.acme.example", "enable_SMTPUTF8": True}
    if arguments.tls == "starttls":
        options |= {"tls_context": context(), "require_starttls": True}
    if arguments.user:
        options |= {"authenticator": log_in, "auth_required": True, "auth_require_tls": arguments.tls == "starttls"}
    implicit = context() if arguments.tls == "tls" else None
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(handler, **options), "127.0.0.1", arguments.port, ssl=implicit
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


sys.stdin.close()
asyncio.run(serve())
