<?php
// Prints for each line "version<TAB>required" of standard input whether WordPress' own is_wp_version_compatible takes a site
// of that version for new enough: 1 or 0.

define('ABSPATH', __DIR__ . '/.wordpress/');
define('WPINC', 'wp-includes');
require ABSPATH . WPINC . '/functions.php';

foreach (file('php://stdin', FILE_IGNORE_NEW_LINES) as $line) {
    [$wp_version, $required] = explode("\t", $line);
    echo (int) is_wp_version_compatible($required), "\n";
}
