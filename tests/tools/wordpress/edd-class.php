<?php
/*
Plugin Name: Acme Forms
Version: 0.9
*/

// A plugin with EDD's class EDD_SL_Plugin_Updater, as EDD's example has it. The class itself is in the folder edd/.

require_once __DIR__ . '/edd/EDD_SL_Plugin_Updater.php';

add_action(
	'init',
	function () {
		if ( ! current_user_can( 'manage_options' ) && ! wp_doing_cron() ) {
			return;
		}
		new EDD_SL_Plugin_Updater(
			'https://shop.example',
			__FILE__,
			[
				'version' => '0.9',
				'license' => trim( get_option( 'acme-forms_license_key' ) ),
				'item_id' => 12,
				'author'  => 'Acme',
				'beta'    => false,
			]
		);
	}
);

// The class does not activate: the plugin's own code does.
function acme_edd( string $action ) {
	$response = wp_remote_post(
		'https://shop.example',
		[
			'timeout' => 15,
			'body'    => [
				'edd_action'  => $action,
				'license'     => trim( get_option( 'acme-forms_license_key' ) ),
				'item_id'     => 12,
				'item_name'   => rawurlencode( 'Acme Forms' ),
				'url'         => home_url(),
				'environment' => wp_get_environment_type(),
			],
		]
	);
	if ( ! is_wp_error( $response ) && 200 === wp_remote_retrieve_response_code( $response ) ) {
		update_option( 'acme-forms_license', json_decode( wp_remote_retrieve_body( $response ) ) );
	}
}
