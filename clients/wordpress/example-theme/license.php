<?php
/**
 * The license of this theme, in a file of its own: a network may load it for all its sites.
 */

defined( 'ABSPATH' ) || exit;

require_once __DIR__ . '/countersign-client.php';

/** Who may sign for this theme: public/keys/<id>.pem of your instance. */
const ACME_SHOP_PUBLIC_KEY = <<<'PEM'
-----BEGIN PUBLIC KEY-----
(yours)
-----END PUBLIC KEY-----
PEM;

/** The license of this theme; a child theme may ask it, too. */
function acme_shop_license(): \Acme\Shop\License\Client {
	static $license = null;
	if ( null === $license ) {
		$license = new \Acme\Shop\License\Client(
			[
				'base_url'     => 'https://licenses.example.com',
				'slug'         => 'acme-shop',
				'theme_folder' => __DIR__,
				'public_keys'  => [ ACME_SHOP_PUBLIC_KEY ],
				'text_domain'  => 'acme-shop',
			]
		);
	}
	return $license;
}

acme_shop_license()->run();
