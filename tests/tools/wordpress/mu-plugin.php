<?php
// A must-use plugin: leads what WordPress asks the outside world to the tests' own server, with core's own filters, and
// shows them what a vendor's code sees.

// What a site's wp-config.php would define, from a file that can change while PHP runs.
foreach (json_decode((string) @file_get_contents(SITE . '/constants.json'), true) ?? [] as $name => $value) {
    define($name, $value);
}

// api.wordpress.org is asked first in every update check; anything else but loopback is a mistake.
add_filter('pre_http_request', function ($response, array $arguments, string $url) {
    $host = parse_url($url, PHP_URL_HOST);
    if (in_array(strtolower($host), ['127.0.0.1', 'localhost'], true)) {
        return $response;
    }
    // A host with https: the tests' own server answers for it, under a path of its name.
    if ('secure.example' === $host && 'https' === parse_url($url, PHP_URL_SCHEME)) {
        return wp_remote_request(getenv('WORDPRESS_OUTSIDE') . '/secure.example' . parse_url($url, PHP_URL_PATH), $arguments);
    }
    // WordPress asks itself, after an automatic update for example, whether it is well.
    if (parse_url(getenv('WORDPRESS_HOME'), PHP_URL_HOST) === $host && isset($_SERVER['SERVER_PORT'])) {
        $arguments['headers']['Host'] = $host;
        return wp_remote_request(str_replace("//$host", "//127.0.0.1:{$_SERVER['SERVER_PORT']}", $url), $arguments);
    }
    file_put_contents(SITE . '/outside.log', "$url\n", FILE_APPEND);
    return 'api.wordpress.org' === $host
        ? wp_remote_request(getenv('WORDPRESS_OUTSIDE') . '/api.wordpress.org' . parse_url($url, PHP_URL_PATH), $arguments)
        : new WP_Error('outside', "$url is outside");
}, 10, 3);

add_action('requests-requests.before_redirect', function (string $location) {
    file_put_contents(SITE . '/outside.log', "redirect to $location\n", FILE_APPEND);
}, 99);

// Packages are downloaded with wp_safe_remote_get, which by itself refuses loopback and odd ports.
add_filter('http_request_host_is_external', fn($external, string $host) => in_array(strtolower($host), ['127.0.0.1', 'localhost', '0.0.0.0'], true), 10, 2);
add_filter('http_allowed_safe_ports', fn(array $ports) => [...$ports, parse_url(getenv('WORDPRESS_OUTSIDE'), PHP_URL_PORT)]);
// These files are in a clone of countersign's repository, and WordPress updates no site that is somebody's clone.
add_filter('automatic_updates_is_vcs_checkout', '__return_false');

// Its weekly look at the site's health asks PHP's MySQL for its version.
add_action('wp_loaded', fn() => remove_all_actions('wp_site_health_scheduled_check'));

// /second/?cron: what is due on a site of a network, whose own wp-cron.php PHP's server would look for in a folder.
add_action('wp_loaded', function () {
    if (isset($_GET['cron'])) {
        require ABSPATH . 'wp-cron.php';
    }
});

// Where there is a file `loaded.log`: which files of a client each request has loaded.
register_shutdown_function(function () {
    if (is_file(SITE . '/loaded.log')) {
        $names = preg_grep('/^countersign-client/', array_map('basename', get_included_files()));
        file_put_contents(SITE . '/loaded.log', implode(' ', [$_SERVER['REQUEST_URI'], ...$names]) . "\n", FILE_APPEND);
    }
});

// /?vendor=<function>: what the client of that plugin says, and what saying it costs.
add_action('wp_loaded', function () {
    if (!isset($_GET['vendor'])) {
        return;
    }
    $client = $_GET['vendor']();
    $requests = 0;
    add_filter('pre_http_request', function ($response) use (&$requests) {
        $requests++;
        return $response;
    });
    $queries = $GLOBALS['wpdb']->num_queries;
    $said = [
        'active' => $client->is_active(),
        'condition' => $client->condition(),
        'forms' => $client->has_module('forms'),
        'pdf' => $client->has_feature('forms', 'pdf'),
        'export' => $client->has_feature('forms', 'export'),
        'maps' => $client->has_module('maps'),
    ];
    $said['queries'] = $GLOBALS['wpdb']->num_queries - $queries;
    $said['requests'] = $requests;
    $said['class'] = get_class($client);
    $said['time'] = time();
    wp_send_json($said);
});
