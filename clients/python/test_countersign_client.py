"""Verifies the statements that all clients are tested with: python3 -m unittest discover clients/python"""

import json
import pathlib
import unittest

import countersign_client

VECTORS = json.loads((pathlib.Path(__file__).parent.parent / "vectors/statements.json").read_text("utf-8"))


class Verification(unittest.TestCase):
    def result(self, row, body):
        try:
            keys = VECTORS["public_keys"]
            given = (row["nonce"], row["site_url"], row["domain"], row["not_before"])
            return countersign_client.verify(body, keys, *given, license_key=row["license_key"])["status"]
        except countersign_client.NotGenuine as reason:
            return str(reason)

    def test_every_statement_is_what_the_vectors_say(self):
        for row in VECTORS["statements"]:
            with self.subTest(row["name"]):
                self.assertEqual(self.result(row, row["body"].encode()), row["result"])

    def test_no_changed_byte_is_believed(self):
        row = VECTORS["statements"][0]
        body = row["body"].encode()
        for index in range(len(body)):
            changed = body[:index] + bytes([body[index] ^ 1]) + body[index + 1 :]
            self.assertIn(self.result(row, changed), ("the signature is wrong", "no signature"), changed)

    def test_a_key_that_is_no_rsa_key_is_an_error_of_the_program(self):
        row = VECTORS["statements"][0]
        for pem in ("", "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n"):
            with self.assertRaises(ValueError):
                countersign_client.verify(row["body"].encode(), [pem], "", "", "", license_key="")


if __name__ == "__main__":
    unittest.main()
