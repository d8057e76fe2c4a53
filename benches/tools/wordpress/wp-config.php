<?php
// The settings of the WordPress that a benchmark asks: those of a shop, on SQLite. What differs comes from the environment.

define('WP_HOME', getenv('WORDPRESS_HOME'));
define('WP_SITEURL', WP_HOME);
define('WP_CONTENT_DIR', getenv('WORDPRESS_SITE') . '/wp-content');

define('DB_ENGINE', 'sqlite');
define('DB_DIR', getenv('WORDPRESS_SITE'));
define('DB_FILE', 'wordpress.sqlite');
define('DB_NAME', 'wordpress');
define('DB_USER', '');
define('DB_PASSWORD', '');
define('DB_HOST', '');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
$table_prefix = 'wp_';

define('WP_DEFAULT_THEME', 'plain');
define('DISABLE_WP_CRON', true);

require ABSPATH . 'wp-settings.php';
