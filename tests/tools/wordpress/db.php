<?php
// A site's database drop-in.

require getenv('WORDPRESS_SQLITE') . '/wp-includes/sqlite/db.php';

// It reads a property that wpdb has since WordPress 6.2.
if (!property_exists('wpdb', 'allow_unsafe_unquoted_parameters')) {
    $GLOBALS['wpdb'] = new class (DB_NAME) extends WP_SQLite_DB {
        public function __get($name)
        {
            return 'allow_unsafe_unquoted_parameters' === $name ? true : parent::__get($name);
        }
    };
}
