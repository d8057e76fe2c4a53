<?php
// What the client loads without WordPress, under any PHP: what a visitor's request costs, and what becomes of a second file that
// is not the right one. The client is in the folder of the first argument, or in /. Prints PHP's version and a JSON line of results.

error_reporting(E_ALL);
set_error_handler(function (int $level, string $message, string $file, int $line) {
    // What the client silences, it silences here, too.
    if (error_reporting() & $level) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
});
gc_disable();

// What little of WordPress a visitor's request takes.
define('ABSPATH', '/');
define('KB_IN_BYTES', 1024);
define('MB_IN_BYTES', 1048576);
define('HOUR_IN_SECONDS', 3600);
define('DAY_IN_SECONDS', 86400);
define('WP_DEBUG', true);
define('ACME_KEY', 'VNXV4-1RR7W-Y810X-3VECS-6KXX0');
$hooked = [];
function wp_parse_url(string $url, int $component = -1)
{
    return parse_url($url, $component);
}
function plugin_basename(string $file): string
{
    return 'acme-forms/acme-forms.php';
}
function is_multisite(): bool
{
    return false;
}
function is_admin(): bool
{
    return false;
}
function wp_doing_ajax(): bool
{
    return false;
}
function get_option(string $name)
{
    return false;
}
function add_filter(string $hook, callable $callback, int $priority = 10, int $arguments = 1): bool
{
    $GLOBALS['hooked'][] = $hook;
    return true;
}
function add_action(string $hook, callable $callback, int $priority = 10, int $arguments = 1): bool
{
    return add_filter($hook, $callback, $priority, $arguments);
}
function register_deactivation_hook(string $file, callable $callback): void
{
}

$folder = $argv[1] ?? '';
$settings = [
    'base_url' => 'https://licenses.example.com',
    'slug' => 'acme-forms',
    'plugin_file' => '/acme-forms.php',
    'public_keys' => ['-----BEGIN PUBLIC KEY-----'],
    'release_keys' => ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI'],
    'key_constant' => 'ACME_KEY',
];

$before = memory_get_usage();
$began = getrusage();
require $folder . '/countersign-client.php';
$client = new Countersign\Client\Client($settings);
$client->run();
$condition = $client->condition();
$ended = getrusage();
$bytes = memory_get_usage() - $before;
$seconds = 0;
foreach (['utime', 'stime'] as $kind) {
    $seconds += $ended["ru_$kind.tv_sec"] - $began["ru_$kind.tv_sec"] + ($ended["ru_$kind.tv_usec"] - $began["ru_$kind.tv_usec"]) / 1e6;
}
$loaded = array_values(array_filter(array_map('basename', get_included_files()), fn(string $name) => 0 === strpos($name, 'countersign-')));

// The second file as it should be, of another version, in the namespace of nobody and of another client, not there, and as an
// upload leaves it that was cut off.
$first = file_get_contents($folder . '/countersign-client.php');
$second = file_get_contents($folder . '/countersign-client-admin.php');
$renamed = fn(string $text, string $namespace) => str_replace('namespace Countersign\Client;', "namespace $namespace;", $text);
$files = [
    'the right one' => fn(string $namespace) => $renamed($second, $namespace),
    'another version' => fn(string $namespace) => preg_replace("/'[^']+' === (?=Client::VERSION)/", "'9.9.9' === ", $renamed($second, $namespace)),
    'no such namespace' => fn() => $renamed($second, 'Acme\Maps\License'),
    'another namespace' => fn() => $second,
    'another namespace again' => fn() => $second,
    'included before the first' => fn(string $namespace) => $renamed($second, $namespace),
    'missing' => fn() => null,
    'all but the end' => fn(string $namespace) => rtrim($renamed($second, $namespace), ";\n"),
];
for ($length = 0; $length < strlen($second); $length = $length ? $length + 1499 : 6) {
    $files["$length bytes"] = fn(string $namespace) => substr($renamed($second, $namespace), 0, $length);
}

$copy = sys_get_temp_dir() . '/countersign-' . getmypid();
mkdir($copy);
$accepted = [];
$complaints = [];
// Each client has a namespace of its own, because a class is declared once.
foreach (array_keys($files) as $number => $what) {
    $name = "Test$number";
    $text = $files[$what]($name);
    file_put_contents("$copy/countersign-client.php", $renamed($first, $name));
    @unlink("$copy/countersign-client-admin.php");
    null === $text || file_put_contents("$copy/countersign-client-admin.php", $text);
    ob_start();
    try {
        'included before the first' === $what && require "$copy/countersign-client-admin.php";
        require "$copy/countersign-client.php";
        if (("$name\\Loader")::load()) {
            $accepted[] = $what;
        }
    } catch (Throwable $error) {
        $complaints[] = $what . ': ' . $error->getMessage();
    }
    $printed = ob_get_clean();
    '' === $printed || $complaints[] = $what . ': ' . $printed;
}
// The other client, whose second file another one has loaded.
Countersign\Client\Loader::load() && $accepted[] = 'the other client';
array_map('unlink', glob("$copy/*"));
rmdir($copy);

echo PHP_VERSION, "\n", json_encode([
    'bytes' => $bytes,
    'milliseconds' => round($seconds * 1000, 2),
    'loaded' => $loaded,
    'hooked' => $hooked,
    'condition' => $condition,
    'tried' => count($files),
    'accepted' => $accepted,
    'complaints' => $complaints,
]);
