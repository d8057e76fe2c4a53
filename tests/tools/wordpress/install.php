<?php
// Installs the WordPress in the folder WORDPRESS_SITE; with WORDPRESS_NETWORK in the environment, a network.

$network = (bool) getenv('WORDPRESS_NETWORK');
putenv('WORDPRESS_NETWORK');
define('WP_INSTALLING', true);
$_SERVER += ['HTTP_HOST' => parse_url(getenv('WORDPRESS_HOME'), PHP_URL_HOST), 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
require getenv('WORDPRESS_SITE') . '/core/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';

// No mail leaves the tests.
function wp_new_blog_notification() {}

wp_install('Customer', 'admin', 'admin@customer.example', true, '', 'password');
if ($network) {
    foreach ($wpdb->tables('ms_global') as $table => $prefixed) {
        $wpdb->$table = $prefixed;
    }
    install_network();
    $result = populate_network(1, $_SERVER['HTTP_HOST'], 'admin@customer.example', 'Customer', '/', false);
    if (is_wp_error($result) && 'no_wildcard_dns' !== $result->get_error_code()) {
        exit($result->get_error_message());
    }
}
