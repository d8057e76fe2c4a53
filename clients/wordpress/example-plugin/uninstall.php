<?php
// Runs when an administrator deletes the plugin.

defined( 'WP_UNINSTALL_PLUGIN' ) || exit;

require_once __DIR__ . '/countersign-client.php';

\Acme\Forms\License\Client::uninstall( 'acme-forms' );
