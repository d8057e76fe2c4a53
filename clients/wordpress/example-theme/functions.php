<?php
/**
 * What this theme does.
 */

defined( 'ABSPATH' ) || exit;

require_once __DIR__ . '/license.php';
