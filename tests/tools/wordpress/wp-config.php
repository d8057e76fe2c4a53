<?php
// The settings of every site of the tests; what differs stands in the environment.

// As on a usual host; Debian's php.ini for the command line has no bound.
ini_set('memory_limit', '128M');

define('SITE', getenv('WORDPRESS_SITE'));
// The address is the customer's, whatever port the tests reach it on.
if (!getenv('WORDPRESS_NETWORK')) {
    // With a file `any-host` the address is what each request claims, as many sites have it.
    $claimed = is_file(SITE . '/any-host') ? $_SERVER['HTTP_HOST'] ?? '' : '';
    define('WP_HOME', '' === $claimed ? getenv('WORDPRESS_HOME') : 'http://' . $claimed);
    define('WP_SITEURL', WP_HOME);
}
define('WP_CONTENT_DIR', SITE . '/wp-content');
define('WP_CONTENT_URL', getenv('WORDPRESS_HOME') . '/wp-content');
define('WP_TEMP_DIR', SITE . '/tmp');

define('DB_ENGINE', 'sqlite');
define('DB_DIR', SITE);
define('DB_FILE', 'wordpress.sqlite');
define('DB_NAME', 'wordpress');
define('DB_USER', '');
define('DB_PASSWORD', '');
define('DB_HOST', '');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
$table_prefix = 'wp_';

foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define($name . '_KEY', $name);
    define($name . '_SALT', $name);
}

if (getenv('WORDPRESS_NETWORK')) {
    define('MULTISITE', true);
    define('SUBDOMAIN_INSTALL', false);
    define('DOMAIN_CURRENT_SITE', parse_url(getenv('WORDPRESS_HOME'), PHP_URL_HOST));
    define('PATH_CURRENT_SITE', '/');
    define('SITE_ID_CURRENT_SITE', 1);
    define('BLOG_ID_CURRENT_SITE', 1);
}

define('WP_DEFAULT_THEME', 'plain');
define('FS_METHOD', 'direct');
// The tests call wp-cron.php when they want it; with a file `alternate-cron`, a visitor's request does what it would do.
define('ALTERNATE_WP_CRON', is_file(SITE . '/alternate-cron'));
define('DISABLE_WP_CRON', !ALTERNATE_WP_CRON);
define('WP_DEBUG', true);
define('WP_DEBUG_DISPLAY', false);
define('WP_DEBUG_LOG', SITE . '/debug.log');

require ABSPATH . 'wp-settings.php';
