<?php
/*
Plugin Name: Acme Forms
Version: 0.9
*/

// A plugin with EDD's SDK, as its readme says it. The SDK itself is in the folder edd/.

add_action(
	'edd_sl_sdk_registry',
	function ( $registry ) {
		$registry->register(
			[
				'id'      => 'acme-forms',
				'url'     => 'https://shop.example',
				'item_id' => 12,
				'version' => '0.9',
				'file'    => __FILE__,
			]
		);
	}
);

require_once __DIR__ . '/edd/edd-sl-sdk.php';
