<?php
// Runs what the client does without WordPress, under any PHP: it reads license keys, verifies statements and counts grace.
// Reads /input.json; prints PHP's version and a JSON line of results.

error_reporting(E_ALL);
set_error_handler(function (int $level, string $message, string $file, int $line) {
    throw new ErrorException($message, 0, $level, $file, $line);
});

// What little of WordPress that takes.
define('ABSPATH', '/');
define('HOUR_IN_SECONDS', 3600);
define('DAY_IN_SECONDS', 86400);
function wp_parse_url(string $url, int $component = -1)
{
    return parse_url($url, $component);
}

require '/countersign-client.php';
require '/countersign-client-admin.php';

use Countersign\Client\{License_Key, Memory, Not_Genuine, Statement};

$input = json_decode(file_get_contents('/input.json'), true);

$keys = array_map([License_Key::class, 'read'], $input['keys']);
$foreign = array_map(fn(string $typed) => License_Key::read($typed, true)['key'] ?? '', $input['foreign']);

// One or two wrong symbols of a key are in the groups that are pointed at, and no others are.
$misplaced = [];
$alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
foreach (range(0, 24) as $first) {
    foreach (range($first, 24) as $second) {
        $typed = 'VNXV41RR7WY810X3VECS6KXX0';
        foreach (array_unique([$first, $second]) as $place) {
            $typed[$place] = $alphabet[(strpos($alphabet, $typed[$place]) + 1 + ($first + $second) % 31) % 32];
        }
        $groups = array_values(array_unique([intdiv($first, 5) + 1, intdiv($second, 5) + 1]));
        $read = License_Key::read($typed);
        if ('key_mistyped' !== ($read['error'] ?? '') || $groups !== $read['groups']) {
            $misplaced[] = $typed;
        }
    }
}

$statements = array_map(function (array $given) use ($input) {
    $expected = array_intersect_key($given, array_flip(['nonce', 'site_url', 'domain']));
    $expected['license_id'] = License_Key::id(License_Key::read($given['license_key'], true)['key']);
    try {
        return Statement::verify($given['body'], $input['public_keys'], $expected, $given['not_before'])['status'];
    } catch (Not_Genuine $reason) {
        return $reason->getMessage();
    }
}, $input['statements']);

// Under a key of another kind, what openssl_verify returns is neither a yes nor a no.
$elliptic = <<<'PEM'
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0sIMIoRohG3OTkJv+NQx21FOynyS
mXRUSJ6MwGS5w5wYPm13U8GEkrlH13W0LmVII/ilhFJ5QJHjWZHNs5hFMg==
-----END PUBLIC KEY-----
PEM;
try {
    Statement::verify($input['statements'][0]['body'], ['no key', $elliptic], [], '');
    $otherwise = 'believed';
} catch (Not_Genuine $reason) {
    $otherwise = $reason->getMessage();
}

$memory = new Memory();
$memory->learn('key', ['status' => 'active', 'grace_period_hours' => 2, 'code' => 'ok', 'domain' => 'customer.example']);
$grace = [$memory->is_active()];
foreach ([7100, 7300, -7100, -7300] as $seconds) {
    $memory->seen = time() - $seconds;
    $grace[] = $memory->is_active();
}

// More grace than a PHP of 32 bits can count in seconds, and clocks that are far apart.
$memory->learn('key', ['status' => 'active', 'grace_period_hours' => PHP_INT_MAX, 'code' => 'ok', 'domain' => 'customer.example']);
$long = [$memory->is_active(), is_int($memory->grace()), is_int($memory->ends())];
$memory->spent = PHP_INT_MAX;
$memory->seen = 0;
$memory->look_at_clock();
$long[] = is_int($memory->elapsed());

echo PHP_VERSION, "\n", json_encode(['keys' => $keys, 'foreign' => $foreign, 'misplaced' => $misplaced, 'statements' => $statements, 'otherwise' => $otherwise, 'grace' => $grace, 'long' => $long]);
