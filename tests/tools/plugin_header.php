<?php
// Prints what WordPress' own get_file_data and get_plugin_data read from plugin files, and the plugins that they require. Takes {"files": [path, ...],
// "fields": [name, ...]} from standard input; a JSON line for each file has the fields' values in base64, by each function, and slugs.

define('ABSPATH', __DIR__ . '/.wordpress/');
define('WPINC', 'wp-includes');
define('WP_CONTENT_URL', 'https://example.com/wp-content');
$wp_plugin_paths = [];
foreach (['load', 'default-constants', 'plugin', 'functions'] as $part) {
    require ABSPATH . WPINC . "/$part.php";
}
require ABSPATH . 'wp-admin/includes/plugin.php';
// WordPress 6.5 came with it.
require __DIR__ . '/.wordpress-newest/wp-includes/class-wp-plugin-dependencies.php';
$slugs = new ReflectionMethod('WP_Plugin_Dependencies', 'sanitize_dependency_slugs');
$slugs->setAccessible(true);
wp_initial_constants();
wp_plugin_directory_constants();

$input = json_decode(file_get_contents('php://stdin'), true, 512, JSON_THROW_ON_ERROR);
foreach ($input['files'] as $file) {
    $by_name = get_file_data($file, array_combine($input['fields'], $input['fields']));
    $by_key = array_filter(get_plugin_data($file, false, false), 'is_string');
    $values = array_map(fn($values) => array_map('base64_encode', $values), [$by_name, $by_key]);
    echo json_encode([...$values, $slugs->invoke(null, $by_name['Requires Plugins'])]), "\n";
}
