<?php
// The least that a plugin in WordPress does for a question about an update: a route, and a file that it answers with. It looks up no license.

add_action('rest_api_init', function () {
    register_rest_route('acme/v1', '/updates', [
        'methods' => 'GET',
        'permission_callback' => '__return_true',
        'callback' => fn() => json_decode(file_get_contents(__DIR__ . '/manifest.json')),
    ]);
});
