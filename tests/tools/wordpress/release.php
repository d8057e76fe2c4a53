<?php
// Runs what the client does with signed releases without WordPress, under any PHP. Reads JSON from standard input, or
// from /input.json; prints PHP's version and a JSON line of results.

error_reporting(E_ALL);
set_error_handler(function (int $level, string $message, string $file, int $line) {
    // What the client silences, it silences here, too.
    if (error_reporting() & $level) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
});

define('ABSPATH', '/');
define('KB_IN_BYTES', 1024);
define('MB_IN_BYTES', 1048576);
define('HOUR_IN_SECONDS', 3600);
define('DAY_IN_SECONDS', 86400);

$input = json_decode(file_get_contents(is_file('/input.json') ? '/input.json' : 'php://stdin'), true);

if ($input['polyfill'] ?? '') {
    // What a PHP without sodium gets from WordPress. Where PHP has it, the caller has disabled these functions.
    require $input['polyfill'];
    if (!function_exists('sodium_crypto_sign_verify_detached')) {
        function sodium_crypto_sign_verify_detached(string $signature, string $message, string $key): bool
        {
            return ParagonIE_Sodium_Core_Ed25519::verify_detached($signature, $message, $key);
        }
    }
}

$folder = $input['client'] ?? '';
require $folder . '/countersign-client.php';
require $folder . '/countersign-client-admin.php';

use Countersign\Client\{Package, Refused, Release_Key, Release_Signature, Release_Statement};

$keys = array_map([Release_Key::class, 'read'], $input['keys'] ?? []);
$pinned = array_values(array_filter($keys));
$bytes = fn(?Release_Key $key) => $key ? bin2hex($key->bytes) : null;

$began = computed();
$signers = array_map(
    fn(array $given) => bin2hex(Release_Signature::signer($given['signature'], base64_decode($given['message']), $pinned)),
    $input['signatures'] ?? []
);
$seconds = computed() - $began;

$statements = array_map(function (string $statement) {
    try {
        return get_object_vars(Release_Statement::read(base64_decode($statement)));
    } catch (Refused $reason) {
        return $reason->getMessage();
    }
}, $input['statements'] ?? []);

/** Seconds that this process has computed: a machine may have other things to do. */
function computed(): float
{
    $used = getrusage();
    return $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec'] + ($used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']) / 1e6;
}

$packages = array_map(function (array $given) {
    $statement = Release_Statement::read(base64_decode($given['statement']));
    $before = memory_get_peak_usage();
    $began = computed();
    try {
        Package::check($given['file'], $statement);
        $result = 'ok';
    } catch (Refused $reason) {
        $result = $reason->getMessage();
    }
    return ['result' => $result, 'seconds' => computed() - $began, 'memory' => memory_get_peak_usage() - $before];
}, $input['packages'] ?? []);

echo PHP_VERSION, "\n", json_encode([
    'keys' => array_map($bytes, $keys),
    'signers' => $signers,
    'seconds' => $seconds,
    'statements' => $statements,
    'packages' => $packages,
]);
