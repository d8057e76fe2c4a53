<?php
/**
 * Plugin Name: Forward EDD license requests to countersign
 * Description: Sites with the old client still ask this shop about their licenses. This passes their questions to countersign.
 * Version:     1.1.0
 * Requires PHP: 7.4
 * License:     MIT OR Apache-2.0
 *
 * Put this file into wp-content/mu-plugins/ of the old shop, and this line into its wp-config.php:
 *
 *     define( 'COUNTERSIGN_URL', 'https://licenses.example.com' );
 *
 * The server needs `foreign_keys = true` and `compat = ["edd"]`, and the shop's address in `proxies`. Without the line, or without
 * this file, the shop answers as before.
 *
 * Only requests that EDD would take for one of four actions are looked at, and of these only the fields below are passed on: no
 * cookie, no header but the User-Agent, and the address that the request came from. Where countersign does not answer, or
 * COUNTERSIGN_URL is not an https address, the site gets 503 and keeps what it knows. A request with two different actions gets 400. The shop never answers
 * from its own, older licenses.
 *
 * @package countersign
 */

defined( 'ABSPATH' ) || exit;

final class Countersign_Edd_Forwarder {

	/**
	 * What EDD reads an action from, in the query and in the body. It reads the second one in wp-admin only, but everybody may
	 * call admin-ajax.php and admin-post.php there.
	 */
	private const NAMES   = [ 'edd_action', 'edd-action' ];
	private const ACTIONS = [ 'activate_license', 'check_license', 'deactivate_license', 'get_version' ];
	private const FIELDS  = [ 'license', 'item_id', 'item_name', 'name', 'url', 'slug', 'version' ];

	/** The longest value in bytes, and the most plugins in one request, as countersign takes them. */
	private const MAX_VALUE    = 2048;
	private const MAX_PRODUCTS = 32;

	/** Seconds. EDD's clients wait for fifteen. */
	private const TIMEOUT = 10;

	/** The longest answer in bytes: changelogs of several plugins. */
	private const MAX_ANSWER = 4194304;

	/** Looks at a request before EDD does. WordPress has not yet added slashes to it. */
	public static function run(): void {
		if ( ! defined( 'COUNTERSIGN_URL' ) ) {
			return;
		}
		$asked   = self::asked();
		$actions = array_unique( array_column( $asked, 0 ) );
		if ( ! array_intersect( self::ACTIONS, $actions ) ) {
			return;
		}
		// SECURITY: EDD would run both, and one of them answers from the shop's own licenses.
		if ( count( $actions ) > 1 ) {
			self::refuse( 400, 'two actions in one request' );
		}
		[ $action, $given ] = $asked[0];
		$server             = self::server();
		if ( null === $server ) {
			self::refuse( 503, 'COUNTERSIGN_URL is no https address' );
		}
		try {
			$response = wp_remote_post(
				$server,
				[
					'timeout'             => self::TIMEOUT,
					'redirection'         => 0,
					'limit_response_size' => self::MAX_ANSWER,
					'user-agent'          => self::line( $_SERVER['HTTP_USER_AGENT'] ?? '' ),
					'headers'             => [ 'X-Forwarded-For' => self::client() ],
					'body'                => [ 'edd_action' => $action ] + self::fields( $given ),
				]
			);
			$is_answer = ! is_wp_error( $response ) && 200 === wp_remote_retrieve_response_code( $response );
			$body      = $is_answer ? wp_remote_retrieve_body( $response ) : '';
			// Cut off, it is no JSON.
			$is_answer = $is_answer && is_array( json_decode( $body, true ) );
		} catch ( Throwable $error ) {
			$is_answer = false;
		}
		if ( ! $is_answer ) {
			self::refuse( 503, 'the license server does not answer' );
		}
		self::answer( 200, $body );
	}

	/**
	 * The actions that EDD would run, with what it would give them, in its order: it reads the query first and the body then, each
	 * by itself, and makes each name a key as WordPress does.
	 *
	 * @return list<array{string, array<mixed>}>
	 */
	private static function asked(): array {
		$asked = [];
		foreach ( [ $_GET, $_POST ] as $given ) {
			foreach ( self::NAMES as $name ) {
				$action = $given[ $name ] ?? '';
				$action = is_string( $action ) ? sanitize_key( $action ) : '';
				if ( '' !== $action ) {
					$asked[] = [ $action, $given ];
				}
			}
		}
		return $asked;
	}

	/** Says why there is no answer about a license. Clients keep what they know. */
	private static function refuse( int $status, string $why ): void {
		if ( 503 === $status ) {
			header( 'Retry-After: 60' );
		}
		self::answer( $status, (string) wp_json_encode( [ 'error' => $why ] ) );
	}

	private static function answer( int $status, string $json ): void {
		nocache_headers();
		header( 'Content-Type: application/json; charset=utf-8' );
		status_header( $status );
		exit( $json ); // phpcs:ignore WordPress.Security.EscapeOutput -- JSON, of the license server or our own.
	}

	/** Where countersign is: HTTPS, or this machine. The keys of all customers go there. */
	private static function server(): ?string {
		$url  = is_string( COUNTERSIGN_URL ) ? COUNTERSIGN_URL : '';
		$host = (string) parse_url( $url, PHP_URL_HOST );
		$safe = 'https' === parse_url( $url, PHP_URL_SCHEME ) || in_array( $host, [ '127.0.0.1', 'localhost', '[::1]' ], true );
		return '' !== $host && $safe ? rtrim( $url, '/' ) . '/edd' : null;
	}

	/** The address that this request came from. What the request itself says of it counts for nothing. */
	private static function client(): string {
		$address = (string) ( $_SERVER['REMOTE_ADDR'] ?? '' );
		/** A shop behind a proxy of its own says here which address is the site's. */
		$address = apply_filters( 'countersign_edd_client_address', $address );
		return is_string( $address ) && filter_var( $address, FILTER_VALIDATE_IP ) ? $address : '0.0.0.0';
	}

	/**
	 * @param array<mixed> $given
	 * @return array<string, mixed> The fields that countersign reads, and no others.
	 */
	private static function fields( array $given ): array {
		$fields = self::chosen( $given );
		if ( isset( $given['products'] ) && is_array( $given['products'] ) ) {
			foreach ( array_slice( $given['products'], 0, self::MAX_PRODUCTS, true ) as $name => $product ) {
				if ( is_array( $product ) ) {
					$fields['products'][ $name ] = self::chosen( $product );
				}
			}
		}
		return $fields;
	}

	/**
	 * @param array<mixed> $given
	 * @return array<string, string>
	 */
	private static function chosen( array $given ): array {
		$chosen = [];
		foreach ( self::FIELDS as $name ) {
			$value = $given[ $name ] ?? null;
			if ( is_string( $value ) && strlen( $value ) <= self::MAX_VALUE ) {
				$chosen[ $name ] = $value;
			}
		}
		return $chosen;
	}

	/** @param mixed $text */
	private static function line( $text ): string {
		return substr( (string) preg_replace( '/[^\x20-\x7e]/', '', is_string( $text ) ? $text : '' ), 0, 256 );
	}
}

add_action( 'plugins_loaded', [ 'Countersign_Edd_Forwarder', 'run' ], -1000 );
