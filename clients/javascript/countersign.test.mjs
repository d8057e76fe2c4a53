// Verifies the statements that all clients are tested with: node --test clients/javascript/countersign.test.mjs

import assert from 'node:assert';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { NotGenuine, verify } from 'countersign-client';

const vectors = JSON.parse(readFileSync(new URL('../vectors/statements.json', import.meta.url), 'utf8'));

async function result(row, body) {
	try {
		const { license_key: licenseKey, nonce, site_url: siteUrl, domain, not_before: notBefore } = row;
		const expected = { publicKeys: vectors.public_keys, licenseKey, nonce, siteUrl, domain, notBefore };
		return (await verify(body, expected)).status;
	} catch (error) {
		assert(error instanceof NotGenuine, error);
		return error.message;
	}
}

test('every statement is what the vectors say', async () => {
	for (const row of vectors.statements) {
		assert.strictEqual(await result(row, new TextEncoder().encode(row.body)), row.result, row.name);
	}
});

test('no changed byte is believed', async () => {
	const [row] = vectors.statements;
	const body = new TextEncoder().encode(row.body);
	for (let index = 0; index < body.length; index++) {
		const changed = Uint8Array.from(body);
		changed[index] ^= 1;
		assert(['the signature is wrong', 'no signature'].includes(await result(row, changed)), `byte ${index}`);
	}
});
