/**
 * Verifies the statements of a countersign server, with nothing but WebCrypto: browsers, Node 20 or newer, Deno, Bun.
 *
 * Only a statement that verifies may change what your program believes of a license. Whatever else comes back is no answer:
 * keep the last statement for its `grace_period_hours`.
 */

/**
 * @typedef {object} Statement
 * @property {'active' | 'invalid' | 'expired' | 'suspended' | 'revoked' | 'released'} status
 * @property {string} code
 * @property {string} message
 * @property {string[]} modules
 * @property {Record<string, string[]>} features
 * @property {string} issued_at
 * @property {number} grace_period_hours
 * @property {string} domain
 * @property {string} site_url
 * @property {string} nonce
 * @property {string} [expires]
 * @property {true} [renews] A renewal is to come by itself: `expires` is no end to warn of.
 * @property {string} [bound_domain]
 * @property {string} [account_url] The customer's page.
 * @property {string} [renew_url]
 * @property {string} [upgrade_url]
 * @property {true} [white_label] Show nothing of the vendor and of the license: no address of theirs, and no part of the key.
 * @property {string} key_id
 * @property {string} [license_id] Older servers do not send it.
 */

/** A statement that is not to be believed; the message says why. */
export class NotGenuine extends Error {}

const SHA256_RSA = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
const isText = (value) => typeof value === 'string';
const KINDS = {
	status: isText,
	code: isText,
	issued_at: isText,
	grace_period_hours: Number.isInteger,
	domain: isText,
	modules: Array.isArray,
	features: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

// What people type between the symbols of a license key.
const SEPARATORS = /[ \t\n\v\f\r\-_\u00a0\u2010-\u2015\u2212\u200b\ufeff]/g;

/**
 * Verifies the bytes that were received, and returns what the verified bytes say.
 *
 * @param {Uint8Array} body As received: `new Uint8Array(await response.arrayBuffer())`.
 * @param {object} expected
 * @param {string[]} expected.publicKeys PEM; the ones that came with your program, never one that was fetched.
 * @param {string} expected.licenseKey What was sent.
 * @param {string} expected.nonce What was sent.
 * @param {string} expected.siteUrl What was sent.
 * @param {string} expected.domain The own host, as the server writes it.
 * @param {string} [expected.notBefore] `issued_at` of the last verified statement.
 * @returns {Promise<Statement>}
 * @throws {NotGenuine}
 */
export async function verify(body, { publicKeys, licenseKey, nonce, siteUrl, domain, notBefore = '' }) {
	// One character a byte: nothing is lost that is not UTF-8.
	const text = Array.from(body, (byte) => String.fromCharCode(byte)).join('');
	// A quote within a text is escaped, so this is nowhere but at a member of that name.
	const found = /"signature":"([^"]*)",/.exec(text);
	if (!found) {
		throw new NotGenuine('no signature');
	}
	const signed = bytes(text.slice(0, found.index) + text.slice(found.index + found[0].length));
	if (!(await isSigned(signed, found[1], publicKeys))) {
		throw new NotGenuine('the signature is wrong');
	}
	const statement = JSON.parse(new TextDecoder().decode(signed));
	for (const [member, isKind] of Object.entries(KINDS)) {
		if (!isKind(statement[member])) {
			throw new NotGenuine(`it has no ${member}`);
		}
	}
	if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(statement.issued_at)) {
		throw new NotGenuine('its time is not readable');
	}
	for (const [member, value] of Object.entries({ nonce, site_url: siteUrl, domain })) {
		if (statement[member] !== value) {
			throw new NotGenuine(`it has another ${member}`);
		}
	}
	// SECURITY: otherwise the signed refusal of any other key would take this license away. Older servers do not send it.
	if ('license_id' in statement && !(await licenseIds(licenseKey)).includes(statement.license_id)) {
		throw new NotGenuine('it has another license_id');
	}
	// Both are written alike, so the order of the texts is the order of the times.
	if (statement.issued_at < notBefore) {
		throw new NotGenuine('it is older than the last one');
	}
	return statement;
}

// The ids that a license may have: that of a key of countersign, if it can be one, and that of another system's key.
async function licenseIds(licenseKey) {
	const forms = [licenseKey.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, '').toLowerCase()];
	const typed = licenseKey.replace(SEPARATORS, '');
	if (/^[0-9A-Za-z]{25}$/.test(typed) && !/u/i.test(typed)) {
		const symbols = typed.toUpperCase().replaceAll('O', '0').replace(/[IL]/g, '1');
		forms.push(symbols.match(/.{5}/g).join('-'));
	}
	const digests = forms.map((form) => crypto.subtle.digest('SHA-256', new TextEncoder().encode(form)));
	return (await Promise.all(digests)).map((digest) =>
		Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join(''),
	);
}

async function isSigned(signed, base64, publicKeys) {
	// atob forgives blanks and missing padding; a signature of ours has neither.
	if (!/^([A-Za-z0-9+/]{4})+([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(base64)) {
		return false;
	}
	const signature = bytes(atob(base64));
	for (const pem of publicKeys) {
		const der = bytes(atob(pem.replace(/-----(BEGIN|END) PUBLIC KEY-----/g, '').replace(/\s/g, '')));
		const key = await crypto.subtle.importKey('spki', der, SHA256_RSA, false, ['verify']);
		if (await crypto.subtle.verify(SHA256_RSA, key, signature, signed)) {
			return true;
		}
	}
	return false;
}

function bytes(binary) {
	return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}
