"""Verifies the statements of a countersign server, with nothing but Python's standard library (3.9 or newer).

Only a statement that verifies may change what your program believes of a license. Whatever else comes back is no answer:
keep the last statement for its `grace_period_hours`.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from typing import Literal, TypedDict, cast

__all__ = ["NotGenuine", "Statement", "verify"]

# DigestInfo of SHA-256 (RFC 8017 section 9.2, note 1).
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
# AlgorithmIdentifier rsaEncryption with its NULL (RFC 3279 section 2.3.1), as DER.
_RSA_ENCRYPTION = bytes.fromhex("300d06092a864886f70d0101010500")

_KINDS: dict[str, type] = {
    "status": str,
    "code": str,
    "issued_at": str,
    "grace_period_hours": int,
    "domain": str,
    "modules": list,
    "features": dict,
}


# What people type between the symbols of a license key.
_SEPARATORS = " \t\n\v\f\r-_\u00a0\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u200b\ufeff"
_SYMBOLS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_READ = {
    **{ord(separator): None for separator in _SEPARATORS},
    **{ord(symbol.lower()): symbol for symbol in _SYMBOLS},
    **{ord(typed): symbol for typed, symbol in zip("OoIiLl", "001111")},
}


class _Always(TypedDict):
    status: Literal["active", "invalid", "expired", "suspended", "revoked", "released"]
    code: str
    message: str
    modules: list[str]
    features: dict[str, list[str]]
    issued_at: str
    grace_period_hours: int
    domain: str
    site_url: str
    nonce: str
    key_id: str


class Statement(_Always, total=False):
    """What the server says of a license. `renews`: a renewal is to come by itself, so `expires` is no end to warn of.
    `white_label`: show nothing of the vendor and of the license, neither their addresses nor a part of the key."""

    expires: str
    account_url: str
    renew_url: str
    upgrade_url: str
    white_label: Literal[True]
    renews: Literal[True]
    bound_domain: str
    license_id: str


class NotGenuine(Exception):
    """The statement is not to be believed; the message says why."""


def verify(
    body: bytes,
    public_keys: Iterable[str],
    nonce: str,
    site_url: str,
    domain: str,
    not_before: str = "",
    *,
    license_key: str,
) -> Statement:
    """Verifies the bytes that were received, and returns what the verified bytes say.

    `public_keys` are PEM texts that came with your program, never fetched. `nonce`, `site_url` and `license_key` are what was
    sent, `domain` is the own host, and `not_before` is the last verified statement's `issued_at`. Raises NotGenuine.
    """
    # A quote within a text is escaped, so this is nowhere but at a member of that name.
    found = re.search(rb'"signature":"([^"]*)",', body)
    if not found:
        raise NotGenuine("no signature")
    signed = body[: found.start()] + body[found.end() :]
    try:
        signature = base64.b64decode(found[1], validate=True)
    except binascii.Error:
        signature = b""
    if not any(_is_signed(signed, signature, *_rsa_key(pem)) for pem in public_keys):
        raise NotGenuine("the signature is wrong")
    statement = json.loads(signed)
    for member, kind in _KINDS.items():
        # type() and not isinstance(): True is no number of hours.
        if type(statement.get(member)) is not kind:
            raise NotGenuine(f"it has no {member}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", statement["issued_at"], re.ASCII):
        raise NotGenuine("its time is not readable")
    for member, expected in (("nonce", nonce), ("site_url", site_url), ("domain", domain)):
        if statement.get(member) != expected:
            raise NotGenuine(f"it has another {member}")
    # SECURITY: otherwise the signed refusal of any other key would take this license away. Older servers do not send it.
    if "license_id" in statement and statement["license_id"] not in _license_ids(license_key):
        raise NotGenuine("it has another license_id")
    # Both are written alike, so the order of the texts is the order of the times.
    if statement["issued_at"] < not_before:
        raise NotGenuine("it is older than the last one")
    return cast(Statement, statement)


def _license_ids(license_key: str) -> list[str]:
    """The ids that a license may have: that of a key of countersign, if it can be one, and that of another system's key."""
    forms = [license_key.strip(" \t\r\n").lower()]
    symbols = license_key.translate(_READ)
    if re.fullmatch(f"[{_SYMBOLS}]{{25}}", symbols):
        forms.append("-".join(symbols[start : start + 5] for start in range(0, 25, 5)))
    return [hashlib.sha256(form.encode()).hexdigest() for form in forms]


def _is_signed(signed: bytes, signature: bytes, modulus: int, exponent: int) -> bool:
    """RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2.2)."""
    length = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(signature, "big")
    if len(signature) != length or number >= modulus:
        return False
    # SECURITY: the whole block is made and compared. Reading the padding instead is how signatures get forged.
    digest = _SHA256_PREFIX + hashlib.sha256(signed).digest()
    expected = b"\x00\x01" + b"\xff" * (length - len(digest) - 3) + b"\x00" + digest
    return hmac.compare_digest(pow(number, exponent, modulus).to_bytes(length, "big"), expected)


def _rsa_key(pem: str) -> tuple[int, int]:
    """Modulus and exponent of a SubjectPublicKeyInfo (RFC 5280 section 4.1) with an RSA key."""
    text = re.search(r"-----BEGIN PUBLIC KEY-----(.*?)-----END PUBLIC KEY-----", pem, re.DOTALL)
    if not text:
        raise ValueError("no public key in PEM form")
    info, rest = _element(base64.b64decode(text[1]), 0x30)
    if rest or not info.startswith(_RSA_ENCRYPTION):
        raise ValueError("no RSA key")
    bits, _ = _element(info[len(_RSA_ENCRYPTION) :], 0x03)
    numbers, _ = _element(bits[1:], 0x30)
    modulus, numbers = _element(numbers, 0x02)
    exponent, _ = _element(numbers, 0x02)
    return int.from_bytes(modulus, "big"), int.from_bytes(exponent, "big")


def _element(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first DER element, which must have this tag, and what stands behind it."""
    if len(der) < 2 or der[0] != tag:
        raise ValueError("no RSA key")
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    return der[start : start + length], der[start + length :]
