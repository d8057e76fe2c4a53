<?php
/*
Plugin Name: Acme Forms
Version: 0.9
*/

// A client of EDD's documented request shapes, for the tests. It is not EDD's own updater.

function acme_edd( string $action ) {
	$response = wp_remote_post(
		'https://shop.example/',
		[
			'timeout' => 15,
			'body'    => [
				'edd_action'  => $action,
				'license'     => 'THE_KEY',
				'item_name'   => rawurlencode( 'Acme Forms' ),
				'item_id'     => 12,
				'version'     => '0.9',
				'slug'        => 'acme-forms',
				'author'      => 'Acme',
				'url'         => home_url(),
				'environment' => 'production',
				'beta'        => false,
			],
		]
	);
	if ( is_wp_error( $response ) || 200 !== wp_remote_retrieve_response_code( $response ) ) {
		return false;
	}
	return json_decode( wp_remote_retrieve_body( $response ) );
}

add_filter(
	'pre_set_site_transient_update_plugins',
	function ( $transient ) {
		$transient = is_object( $transient ) ? $transient : new stdClass();
		$version   = acme_edd( 'get_version' );
		if ( $version && isset( $version->new_version, $version->sections ) && version_compare( '0.9', $version->new_version, '<' ) ) {
			foreach ( [ 'sections', 'banners', 'icons' ] as $name ) {
				$version->$name = isset( $version->$name ) ? (array) maybe_unserialize( $version->$name ) : [];
			}
			$version->plugin = 'acme-forms/acme-forms.php';
			$transient->response['acme-forms/acme-forms.php'] = $version;
		}
		return $transient;
	}
);
