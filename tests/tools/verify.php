<?php
// Verifies statements as a client does, with PHP's own openssl_verify: once over the received text with the signature
// cut out, once over a re-encoding of what was decoded. Reads {"bodies": [...], "key": PEM} from standard input.

$input = json_decode(file_get_contents('php://stdin'), true, 512, JSON_THROW_ON_ERROR);
$key = openssl_pkey_get_public($input['key']);

foreach ($input['bodies'] as $body) {
    $payload = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
    $signature = base64_decode($payload['signature'], true);

    $cut = preg_replace('/"signature":"[^"]*",/', '', $body, 1);

    unset($payload['signature']);
    // An empty object and an empty array are the same to PHP; in a statement only features is an object.
    $payload['features'] = (object) $payload['features'];
    ksort($payload, SORT_STRING);
    $encoded = json_encode($payload, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_LINE_TERMINATORS);

    $accepted = 0;
    for ($i = 0; $i < strlen($cut); $i++) {
        $flipped = $cut;
        $flipped[$i] = chr(ord($flipped[$i]) ^ 1);
        $accepted += openssl_verify($flipped, $signature, $key, OPENSSL_ALGO_SHA256) === 1 ? 1 : 0;
    }
    printf(
        "cut %d, re-encoded %d, flipped bytes accepted %d of %d\n",
        openssl_verify($cut, $signature, $key, OPENSSL_ALGO_SHA256),
        openssl_verify($encoded, $signature, $key, OPENSSL_ALGO_SHA256),
        $accepted,
        strlen($cut)
    );
}
