#!/usr/bin/env python3
"""Writes the vectors of this folder again, byte for byte: a release statement and signatures, good ones and bad ones.

Python lays the blobs out, and OpenSSL signs. Whoever reads them shares no code with this script. The keys are for tests only.
"""

import base64, hashlib, json, struct, subprocess, tempfile, zipfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "package" / "marked.zip"

PLAIN = b"ssh-ed25519"
HARDWARE = b"sk-ssh-ed25519@openssh.com"
NAMESPACE = b"countersign-release"
ORDER = 2**252 + 27742317777372353535851937790883648493


def text(value):
    return struct.pack(">I", len(value)) + value


class Key:
    def __init__(self, name, seed, kind=PLAIN):
        self.name, self.kind, self.seed = name, kind, seed
        der = bytes.fromhex("302e020100300506032b657004220420") + seed
        self.pem = "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n" % base64.b64encode(der).decode()
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self.pem)
            file.flush()
            public = subprocess.run(["openssl", "pkey", "-in", file.name, "-pubout", "-outform", "DER"], stdout=subprocess.PIPE, check=True)
        self.bytes = public.stdout[-32:]
        self.blob = text(kind) + text(self.bytes) + (text(b"ssh:") if kind == HARDWARE else b"")

    def line(self):
        return f"{self.kind.decode()} {base64.b64encode(self.blob).decode()} {self.name}\n"

    def sign(self, message):
        with tempfile.NamedTemporaryFile("w") as key, tempfile.NamedTemporaryFile("wb") as file:
            key.write(self.pem)
            key.flush()
            file.write(message)
            file.flush()
            command = ["openssl", "pkeyutl", "-sign", "-inkey", key.name, "-rawin", "-in", file.name]
            return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def large(signature):
    """The same signature with its number S written as S + L, which a lax reader takes for the same."""
    number = int.from_bytes(signature[32:], "little") + ORDER
    return signature[:32] + number.to_bytes(32, "little")


def blob(key, message, version=1, namespace=NAMESPACE, reserved=b"", hash="sha512", kind=None, flags=1, change=lambda s: s, inside=b"", behind=b""):
    digest = hashlib.new(hash, message).digest()
    signed = b"SSHSIG" + text(namespace) + text(reserved) + text(hash.encode()) + text(digest)
    tail = b""
    if key.kind == HARDWARE:
        tail = struct.pack(">BI", flags, 7)
        signed = hashlib.sha256(b"ssh:").digest() + tail + hashlib.sha256(signed).digest()
    signature = text(kind or key.kind) + text(change(key.sign(signed))) + tail + inside
    head = b"SSHSIG" + struct.pack(">I", version) + text(key.blob) + text(namespace) + text(reserved) + text(hash.encode())
    return head + text(signature) + behind


def armored(data, end="\n"):
    letters = base64.b64encode(data).decode()
    lines = [letters[at : at + 70] for at in range(0, len(letters), 70)]
    return end.join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def statement():
    with zipfile.ZipFile(PACKAGE) as archive:
        names = sorted(entry.filename for entry in archive.infolist())
        mark = archive.getinfo("acme-forms/build-id.php")
        lines = [
            f"{hashlib.sha256(archive.read(name)).hexdigest()}  {name}\n"
            for name in names
            if not name.endswith("/") and name != mark.filename
        ]
    data = PACKAGE.read_bytes()
    uuid = data.index(b"00000000-0000-0000-0000-000000000000")
    central = data.rindex(b"PK\1\2")
    value = {
        "type": "countersign-release-1",
        "slug": "acme-forms",
        "version": "1.2.0",
        "number": 2,
        "previous": hashlib.sha256(b"the statement before").hexdigest(),
        "tag": "v1.2.0",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "published": "2026-11-23T15:04:06Z",
        "requires": "6.1",
        "requires_php": "7.4",
        "pins": {"keys": sorted(" ".join(key.line().split()[:2]) for key in PINNED), "threshold": 2},
        "form": 1,
        "contents": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "package": {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "mark": {"uuid": uuid, "crc": [mark.header_offset + 14, central + 16]},
        },
    }
    # Every name and text here is ASCII, and every number an integer: sorted and without blanks, that is RFC 8785.
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def statements(message):
    """Statements that every reader takes or refuses alike, with what is the matter with each."""
    whole = message.decode()

    def changed(*path, to):
        value = json.loads(whole)
        place = value
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to
        return canonical(value)

    def without(*path):
        value = json.loads(whole)
        place = value
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]
        return canonical(value)

    first = json.loads(whole)
    first.update(number=1, previous=None)
    unmarked = json.loads(whole)
    unmarked["package"]["mark"] = None
    lines = json.loads(whole)["pins"]["keys"]
    both_annas = sorted(" ".join(key.line().split()[:2]) for key in (ANNA, ANNAS_TOKEN))
    yield True, "the statement", whole
    yield True, "the first one", canonical(first)
    yield True, "no mark", canonical(unmarked)
    yield True, "no requirements", changed("requires", to="").replace('"requires_php":"7.4"', '"requires_php":""')
    yield True, "a commit of SHA-256", changed("commit", to="0" * 64)
    yield True, "the largest number", changed("number", to=2**53 - 1)
    yield True, "the whole threshold", changed("pins", "threshold", to=3)
    yield False, "a newline behind it", whole + "\n"
    yield False, "a space", whole.replace(",", ", ", 1)
    yield False, "another order", whole.replace('"form":1,"number":2', '"number":2,"form":1')
    yield False, "an escaped letter", whole.replace("acme-forms", "acme\\u002dforms", 1)
    yield False, "a member twice", whole.replace('"form":1', '"form":1,"form":1')
    yield False, "a member twice, inside", whole.replace('{"crc"', '{"crc":[1,2],"crc"')
    yield False, "a fraction", whole.replace('"form":1', '"form":1.0')
    for path in ((), ("package",), ("package", "mark"), ("pins",)):
        where = "/".join(("",) + path)
        for name in ("0", "more", "z"):
            yield False, f"an unknown member {where}/{name}", changed(*path, name, to=1)
    for path in [(name,) for name in sorted(json.loads(whole))] + [
        ("package", "mark"),
        ("package", "mark", "crc"),
        ("package", "mark", "uuid"),
        ("package", "sha256"),
        ("package", "size"),
        ("pins", "keys"),
        ("pins", "threshold"),
    ]:
        yield False, "no /" + "/".join(path), without(*path)
    yield False, "another type", changed("type", to="countersign-release-2")
    yield False, "another plugin's name", changed("slug", to="Acme")
    yield False, "no version", changed("version", to="")
    yield False, "number 0", changed("number", to=0)
    yield False, "a number that is not exact", changed("number", to=2**53)
    yield False, "number 1 behind another", changed("number", to=1)
    yield False, "number 2 behind none", changed("previous", to=None)
    yield False, "a short digest", changed("contents", to="00")
    yield False, "a digest in capitals", changed("contents", to="A" * 64)
    yield False, "a commit in capitals", changed("commit", to="A" * 40)
    yield False, "a control character in the tag", changed("tag", to="v1\n")
    yield False, "another time", changed("published", to="2026-11-23T15:04:06+00:00")
    yield False, "a requirement in words", changed("requires", to="six")
    yield False, "form 0", changed("form", to=0)
    yield False, "an empty package", changed("package", "size", to=0)
    yield False, "a large package", changed("package", "size", to=2**29 + 1)
    yield False, "a mark behind the package", changed("package", "mark", "uuid", to=2**28)
    yield False, "places in another order", changed("package", "mark", "crc", to=[1550, 910])
    yield False, "three checksums", changed("package", "mark", "crc", to=[910, 1550, 1560])
    yield False, "no keys", changed("pins", "keys", to=[])
    yield False, "keys in another order", changed("pins", "keys", to=lines[::-1])
    yield False, "a key twice", changed("pins", "keys", to=[lines[0], *lines])
    yield False, "a key with a comment", changed("pins", "keys", to=[lines[0] + " anna", *lines[1:]])
    yield False, "no key", changed("pins", "keys", to=["ssh-rsa AAAA"])
    yield False, "threshold 0", changed("pins", "threshold", to=0)
    yield False, "a threshold above the keys", changed("pins", "threshold", to=4)
    value = json.loads(changed("pins", "keys", to=both_annas))
    yield False, "a threshold that needs one key twice", canonical(value)


ANNA = Key("anna@acme", bytes([1]) * 32)
BERT = Key("bert@acme", bytes([2]) * 32)
TOKEN = Key("token@acme", bytes([3]) * 32, HARDWARE)
# The same 32 bytes as Anna's.
ANNAS_TOKEN = Key("annas-token@acme", bytes([1]) * 32, HARDWARE)
STRANGER = Key("stranger@elsewhere", bytes([9]) * 32)
PINNED = [ANNA, BERT, TOKEN, ANNAS_TOKEN]

# What OpenSSH takes and we do not: no touch, a number out of range, other armor, and a second signature that it does not read.
LAX = ["token-untouched", "token-only-verified", "large-s", "narrow", "no-last-newline", "two"]


def main():
    message = statement()
    good = armored(blob(ANNA, message))
    rows = [
        ("anna", ANNA.name, good),
        ("anna-sha256", ANNA.name, armored(blob(ANNA, message, hash="sha256"))),
        ("bert", BERT.name, armored(blob(BERT, message))),
        ("token", TOKEN.name, armored(blob(TOKEN, message))),
        ("token-verified", TOKEN.name, armored(blob(TOKEN, message, hash="sha256", flags=5))),
        ("annas-token", ANNAS_TOKEN.name, armored(blob(ANNAS_TOKEN, message))),
        ("stranger", "", armored(blob(STRANGER, message))),
        ("token-untouched", "", armored(blob(TOKEN, message, flags=0))),
        ("token-only-verified", "", armored(blob(TOKEN, message, flags=4))),
        ("other-message", "", armored(blob(ANNA, message + b"\n"))),
        ("other-namespace", "", armored(blob(ANNA, message, namespace=b"file"))),
        ("no-namespace", "", armored(blob(ANNA, message, namespace=b""))),
        ("version-2", "", armored(blob(ANNA, message, version=2))),
        ("reserved", "", armored(blob(ANNA, message, reserved=b"x"))),
        ("md5", "", armored(blob(ANNA, message, hash="md5"))),
        ("sha1", "", armored(blob(ANNA, message, hash="sha1"))),
        ("sha384", "", armored(blob(ANNA, message, hash="sha384"))),
        ("plain-as-hardware", "", armored(blob(ANNA, message, kind=HARDWARE))),
        ("hardware-as-plain", "", armored(blob(TOKEN, message, kind=PLAIN))),
        ("left-over", "", armored(blob(ANNA, message, behind=b"\0"))),
        ("left-over-inside", "", armored(blob(ANNA, message, inside=b"\0"))),
        ("token-left-over-inside", "", armored(blob(TOKEN, message, inside=b"\0"))),
        ("long-signature", "", armored(blob(ANNA, message, change=lambda s: s + b"\0"))),
        ("short-signature", "", armored(blob(ANNA, message, change=lambda s: s[:-1]))),
        ("large-s", "", armored(blob(ANNA, message, change=large))),
        ("small-order-r", "", armored(blob(ANNA, message, change=lambda s: bytes([1]) + bytes(31) + s[32:]))),
        ("nothing", "", armored(blob(ANNA, message, change=lambda s: bytes(64)))),
        ("carriage-returns", "", armored(blob(ANNA, message), end="\r\n")),
        ("narrow", "", narrow(good)),
        ("no-last-newline", "", good.rstrip("\n")),
        ("two", "", good + armored(blob(BERT, message))),
        ("blank-in-front", "", " " + good),
        ("no-armor", "", base64.b64encode(blob(ANNA, message)).decode()),
        ("no-padding", "", unpadded(armored(blob(TOKEN, message)))),
        ("unused-bits", "", with_unused_bit(armored(blob(TOKEN, message)))),
    ]
    (HERE / "statement.json").write_bytes(message)
    table = [json.dumps({"good": good, "what": what, "statement": text}) + "\n" for good, what, text in statements(message)]
    (HERE / "statements.jsonl").write_text("".join(table))
    (HERE / "keys.pub").write_text("".join(key.line() for key in PINNED))
    for name, _, signature in rows:
        (HERE / f"{name}.sig").write_bytes(signature.encode())
    table = "".join(f"{name}.sig\t{signer or '-'}\t{'yes' if signer or name in LAX else 'no'}\n" for name, signer, _ in rows)
    (HERE / "signatures.tsv").write_text("file\tsigner\tOpenSSH says\n" + table)


def narrow(signature):
    """The same with other line breaks."""
    begin, *inside, end, _ = signature.split("\n")
    letters = "".join(inside)
    return "\n".join([begin, *[letters[at : at + 64] for at in range(0, len(letters), 64)], end, ""])


def unpadded(signature):
    assert "=\n-----END" in signature
    return signature.replace("=\n-----END", "\n-----END").replace("=\n-----END", "\n-----END")


def with_unused_bit(signature):
    """The last letter has bits that belong to no byte; another one that reads the same."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at = signature.index("=") - 1
    return signature[:at] + alphabet[alphabet.index(signature[at]) | 1] + signature[at + 1 :]


main()
