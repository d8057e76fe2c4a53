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
export function verify(body: Uint8Array, { publicKeys, licenseKey, nonce, siteUrl, domain, notBefore }: {
    publicKeys: string[];
    licenseKey: string;
    nonce: string;
    siteUrl: string;
    domain: string;
    notBefore?: string;
}): Promise<Statement>;
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
export class NotGenuine extends Error {
}
export type Statement = {
    status: "active" | "invalid" | "expired" | "suspended" | "revoked" | "released";
    code: string;
    message: string;
    modules: string[];
    features: Record<string, string[]>;
    issued_at: string;
    grace_period_hours: number;
    domain: string;
    site_url: string;
    nonce: string;
    expires?: string;
    /**
     * A renewal is to come by itself: `expires` is no end to warn of.
     */
    renews?: true;
    bound_domain?: string;
    /**
     * The customer's page.
     */
    account_url?: string;
    renew_url?: string;
    upgrade_url?: string;
    /**
     * Show nothing of the vendor and of the license: no address of theirs, and no part of the key.
     */
    white_label?: true;
    key_id: string;
    /**
     * Older servers do not send it.
     */
    license_id?: string;
};
