<?php
/**
 * Plugin Name: Acme Forms
 * Description: An example of a licensed plugin: what a vendor writes around the countersign client.
 * Version: 1.0.0
 * Requires at least: 6.0
 * Requires PHP: 7.4
 * Author: Acme
 * Text Domain: acme-forms
 * Update URI: https://licenses.example.com/acme-forms
 */

defined( 'ABSPATH' ) || exit;

require_once __DIR__ . '/countersign-client.php';

/** Who may sign for this plugin: public/keys/<id>.pem of your instance. */
const ACME_FORMS_PUBLIC_KEY = <<<'PEM'
-----BEGIN PUBLIC KEY-----
(yours)
-----END PUBLIC KEY-----
PEM;

/** The license of this plugin; the rest of the plugin asks it. */
function acme_forms_license(): \Acme\Forms\License\Client {
	static $license = null;
	if ( null === $license ) {
		$license = new \Acme\Forms\License\Client(
			[
				'base_url'    => 'https://licenses.example.com',
				'slug'        => 'acme-forms',
				'plugin_file' => __FILE__,
				'public_keys' => [ ACME_FORMS_PUBLIC_KEY ],
				'text_domain' => 'acme-forms',
			]
		);
	}
	return $license;
}

acme_forms_license()->run();

// A form for everyone. Asking costs nothing, so ask where the answer matters.
add_shortcode(
	'acme_form',
	function (): string {
		$form = '<form class="acme-form"><label>Your message <textarea name="message"></textarea></label></form>';
		if ( acme_forms_license()->has_feature( 'acme-forms', 'export' ) ) {
			$form .= '<a class="acme-export" href="#">Export</a>';
		}
		return $form;
	}
);
