/* A FIDO token for tests: the provider interface of OpenSSH (sk-api.h, version 10, OpenSSH 8.9 and newer), Ed25519 only.
 *
 * The key handle is the secret key. Nobody touches anything: the token says that it was touched where it was asked to
 * wait for that, and where SK_TEST_LIES is in the environment, it never says so. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of libcrypto, whose headers need not be there. */
typedef struct evp_pkey_st EVP_PKEY;
typedef struct evp_md_ctx_st EVP_MD_CTX;
extern EVP_PKEY *EVP_PKEY_new_raw_private_key(int, void *, const unsigned char *, size_t);
extern int EVP_PKEY_get_raw_public_key(const EVP_PKEY *, unsigned char *, size_t *);
extern void EVP_PKEY_free(EVP_PKEY *);
extern EVP_MD_CTX *EVP_MD_CTX_new(void);
extern void EVP_MD_CTX_free(EVP_MD_CTX *);
extern int EVP_DigestSignInit(EVP_MD_CTX *, void *, const void *, void *, EVP_PKEY *);
extern int EVP_DigestSign(EVP_MD_CTX *, unsigned char *, size_t *, const unsigned char *, size_t);
extern unsigned char *SHA256(const unsigned char *, size_t, unsigned char *);
extern int RAND_bytes(unsigned char *, int);
#define EVP_PKEY_ED25519 1087

#define SK_VERSION 0x000a0000
#define SK_ALG_ED25519 1
#define SK_USER_PRESENCE 1
#define SK_ERR_GENERAL -1
#define SK_ERR_UNSUPPORTED -2

struct sk_option;
struct sk_resident_key;

struct sk_enroll_response {
    uint8_t flags;
    uint8_t *public_key;
    size_t public_key_len;
    uint8_t *key_handle;
    size_t key_handle_len;
    uint8_t *signature;
    size_t signature_len;
    uint8_t *attestation_cert;
    size_t attestation_cert_len;
    uint8_t *authdata;
    size_t authdata_len;
};

struct sk_sign_response {
    uint8_t flags;
    uint32_t counter;
    uint8_t *sig_r;
    size_t sig_r_len;
    uint8_t *sig_s;
    size_t sig_s_len;
};

uint32_t sk_api_version(void) { return SK_VERSION; }

int sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len, const char *application, uint8_t flags,
              const char *pin, struct sk_option **options, struct sk_enroll_response **response) {
    (void)challenge, (void)challenge_len, (void)application, (void)pin, (void)options;
    if (alg != SK_ALG_ED25519)
        return SK_ERR_UNSUPPORTED;
    struct sk_enroll_response *made = calloc(1, sizeof *made);
    made->flags = flags;
    made->key_handle = malloc(32);
    made->key_handle_len = 32;
    made->public_key = malloc(32);
    made->public_key_len = 32;
    if (RAND_bytes(made->key_handle, 32) != 1)
        return SK_ERR_GENERAL;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, made->key_handle, 32);
    if (!key || EVP_PKEY_get_raw_public_key(key, made->public_key, &made->public_key_len) != 1)
        return SK_ERR_GENERAL;
    EVP_PKEY_free(key);
    /* Nobody checks the attestation. */
    made->signature = calloc(1, made->signature_len = 1);
    made->attestation_cert = calloc(1, made->attestation_cert_len = 1);
    *response = made;
    return 0;
}

int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len, const char *application, const uint8_t *key_handle,
            size_t key_handle_len, uint8_t flags, const char *pin, struct sk_option **options,
            struct sk_sign_response **response) {
    (void)pin, (void)options;
    if (alg != SK_ALG_ED25519 || key_handle_len != 32)
        return SK_ERR_UNSUPPORTED;
    struct sk_sign_response *made = calloc(1, sizeof *made);
    made->flags = getenv("SK_TEST_LIES") ? 0 : flags & SK_USER_PRESENCE;
    made->counter = 0x12345678;
    /* What a token signs (CTAP 2, section 6.2): the application, its flags and its counter, and what it was given. */
    unsigned char message[32 + 1 + 4 + 32];
    SHA256((const unsigned char *)application, strlen(application), message);
    message[32] = made->flags;
    for (int at = 0; at < 4; at++)
        message[33 + at] = (unsigned char)(made->counter >> (24 - 8 * at));
    SHA256(data, data_len, message + 37);
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key_handle, 32);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    made->sig_r = malloc(64);
    made->sig_r_len = 64;
    if (!key || EVP_DigestSignInit(context, NULL, NULL, NULL, key) != 1 ||
        EVP_DigestSign(context, made->sig_r, &made->sig_r_len, message, sizeof message) != 1)
        return SK_ERR_GENERAL;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    *response = made;
    return 0;
}

int sk_load_resident_keys(const char *pin, struct sk_option **options, struct sk_resident_key ***keys, size_t *count) {
    (void)pin, (void)options, (void)keys, (void)count;
    return SK_ERR_UNSUPPORTED;
}
