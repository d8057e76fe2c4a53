<?php
/**
 * The other half of the countersign client for WordPress: what asks the server, installs updates and shows pages.
 *
 * countersign-client.php loads this file; your plugin does not. Change the namespace below to the same as there.
 *
 * Read it from top to bottom: what is wrong with what your plugin says (Config_Check), how the license is learned and given
 * back (Secret, License, Server and its Answer, Http and Sockets, and why a statement is Not_Genuine), what happens when the
 * plugin is deleted (Uninstallation), what is installed (Channel, Download, Manifest, Updates), who made it (Release with its
 * Release_Statement, Release_Signature and Release_Key, Package, Installation, and why one is Refused), and what a person sees
 * (Settings_Page, Site_Health, Command, All_Texts).
 *
 * @version 0.1.0
 * @license MIT OR Apache-2.0
 */

namespace Countersign\Client;

defined( 'ABSPATH' ) || exit;

// Of another version is a file that replaced the right one after this request had begun, or that was uploaded alone. And where
// two plugins share a namespace, the other's file may be loaded.
if ( defined( __NAMESPACE__ . '\Client::VERSION' ) && '0.1.0' === Client::VERSION && ! class_exists( __NAMESPACE__ . '\License', false ) ) :

	/**
	 * What would not work, for the plugin's author: WordPress says it where WP_DEBUG is on.
	 */
	final class Config_Check {

		public static function complain( Config $config ): void {
			$settings     = $config->settings;
			$release_keys = count( (array) $settings['release_keys'] );
			$threshold    = $settings['release_threshold'];
			$wrong        = [];
			$host         = wp_parse_url( $config->base_url, PHP_URL_HOST );
			if ( ! Config::is_safe( $config->base_url ) ) {
				$wrong[] = 'base_url must begin with https://';
			}
			if ( ! preg_match( '/^[a-z0-9][a-z0-9-]{0,63}$/D', $config->slug ) ) {
				$wrong[] = 'slug must be the name of the plugin on the server';
			}
			if ( ! $config->public_keys ) {
				$wrong[] = 'public_keys must have a key: nothing can be verified';
			}
			if ( ! function_exists( 'openssl_verify' ) ) {
				$wrong[] = 'PHP has no OpenSSL: nothing can be verified';
			} elseif ( in_array( false, array_map( 'openssl_pkey_get_public', $config->public_keys ), true ) ) {
				$wrong[] = 'public_keys has something that is not a public key in PEM form';
			}
			if ( count( $config->release_keys() ) !== $release_keys ) {
				$wrong[] = 'release_keys has something that is not an Ed25519 key as OpenSSH writes it (ssh-ed25519 or sk-ssh-ed25519@openssh.com)';
			}
			if ( ! is_int( $threshold ) || $threshold < 1 ) {
				$wrong[] = 'release_threshold must be a number from 1 on';
			}
			if ( $release_keys && $config->release_threshold > count( array_unique( array_column( $config->release_keys(), 'bytes' ) ) ) ) {
				$wrong[] = 'release_threshold needs more keys than release_keys has: no update is ever installed';
			}
			if ( $release_keys && ! function_exists( 'sodium_crypto_sign_verify_detached' ) ) {
				$wrong[] = 'PHP lets nobody call sodium_crypto_sign_verify_detached: no update is ever installed';
			}
			if ( $settings['key_from'] !== $config->key_from ) {
				$wrong[] = 'key_from must be the name of an option, or a function';
			}
			if ( ( '' === (string) $settings['plugin_file'] ) === ( '' === (string) $settings['theme_folder'] ) ) {
				$wrong[] = 'either plugin_file must be the plugin\'s main file, or theme_folder the theme\'s folder';
			}
			if ( wp_parse_url( $config->extension->header( 'Update URI' ), PHP_URL_HOST ) !== $host ) {
				$wrong[] = 'the host in the Update URI of the header is not that of base_url: no update is offered';
			}
			if ( 0 !== strpos( wp_normalize_path( __FILE__ ), wp_normalize_path( $config->extension->path ) . '/' ) ) {
				$wrong[] = 'this class is from another plugin: give the namespace a name of your own';
			}
			foreach ( $wrong as $message ) {
				_doing_it_wrong( __CLASS__, esc_html( $config->slug . ': ' . $message ), '0.1.0' );
			}
		}
	}

	/**
	 * The secret that lets this site, and no other, release its seat. Its option is not loaded with any page; the server knows
	 * only its hash. Plugins of one site that share a license share its secret, too, because the server
	 * keeps the hash of the first of them.
	 *
	 * While a person moves the site or takes its seat back, there are two: the old one, which the server wants, and the next one, which
	 * counts from when the server has signed that it knows its hash. Whatever is lost on the way, the person can try again.
	 */
	final class Secret {

		private Config $config;
		private string $name;
		private bool $network;

		public function __construct( Config $config ) {
			$this->config  = $config;
			$this->name    = self::name_for( $config->slug );
			$this->network = $config->network;
		}

		public static function name_for( string $slug ): string {
			return Config::name_for( $slug ) . '_secret';
		}

		public static function next_name_for( string $slug ): string {
			return self::name_for( $slug ) . '_next';
		}

		/** The secret that is kept; empty where there is none. */
		public function read(): string {
			return $this->kept_as( $this->name );
		}

		/**
		 * The secret that follows: that of another plugin of this site which has the license already, or a new one. The same each time,
		 * until keep() has taken it.
		 *
		 * @param bool $may_share Whether it may be another plugin's.
		 * @return string Empty if it cannot be stored: then its hash must not be sent.
		 */
		public function next( string $key, bool $may_share = true ): string {
			$name = self::next_name_for( $this->config->slug );
			$next = $may_share ? $this->of_another_plugin( $key ) : '';
			$next = '' !== $next ? $next : $this->kept_as( $name );
			if ( $next !== $this->kept_as( $name ) || '' === $next ) {
				$this->store( $name, '' !== $next ? $next : bin2hex( random_bytes( 32 ) ) );
			}
			return $this->kept_as( $name );
		}

		/** Whether a secret is the next one, which does not count until the server has signed that the license is active here. */
		public function is_next( string $secret ): bool {
			return '' !== $secret && $secret === $this->kept_as( self::next_name_for( $this->config->slug ) ) && $secret !== $this->read();
		}

		/**
		 * The secret to validate a license with, made where there is none yet. A license that is new here may have one already,
		 * from another plugin of this site; keep() takes it.
		 *
		 * @return string Empty if it cannot be stored: then its hash must not be sent.
		 */
		public function of( string $key, bool $is_new ): string {
			// The server may know the hash of the next one, and its answer was lost.
			$next = $is_new ? '' : $this->kept_as( self::next_name_for( $this->config->slug ) );
			if ( '' !== $next ) {
				return $next;
			}
			$own    = $this->read();
			$shared = '' === $own || $is_new ? $this->of_another_plugin( $key ) : '';
			if ( '' !== $shared ) {
				return $shared;
			}
			if ( '' === $own ) {
				$this->store( $this->name, bin2hex( random_bytes( 32 ) ) );
			}
			return $this->read();
		}

		/** Makes a secret the one that counts. */
		public function keep( string $secret ): void {
			if ( '' === $secret ) {
				return;
			}
			if ( $secret !== $this->read() ) {
				$this->store( $this->name, $secret );
			}
			if ( $secret === $this->read() ) {
				$this->remove( self::next_name_for( $this->config->slug ) );
			}
		}

		/** Gives the secret to the other plugins of this site that have the license. */
		public function share( string $key, string $secret ): void {
			foreach ( $this->other_plugins( $key ) as $name ) {
				$this->store( $name, $secret );
			}
		}

		public function forget(): void {
			$this->remove( $this->name );
			$this->remove( self::next_name_for( $this->config->slug ) );
		}

		private function store( string $name, string $secret ): void {
			$this->remove( $name );
			$this->network ? add_site_option( $name, $secret ) : add_option( $name, $secret, '', false );
			// SECURITY: a hash whose secret is lost would keep the site from ever giving its place back.
			wp_cache_delete( $name, 'options' );
			wp_cache_delete( get_current_network_id() . ':' . $name, 'site-options' );
		}

		private function remove( string $name ): void {
			$this->network ? delete_site_option( $name ) : delete_option( $name );
		}

		private function of_another_plugin( string $key ): string {
			foreach ( $this->other_plugins( $key ) as $name ) {
				return $this->kept_as( $name );
			}
			return '';
		}

		/** @return string[] The options with the secrets of other plugins of this site that have the license. */
		private function other_plugins( string $key ): array {
			$here  = Statement::host( $this->config->site_url() );
			$names = [];
			foreach ( self::memories( $this->network ) as $name => $memory ) {
				$name .= '_secret';
				// SECURITY: one that has not said whether the site has moved or is a copy has another site's secret.
				if ( $name !== $this->name && '' !== $this->kept_as( $name ) && $memory->key === $key && $memory->host() === $here ) {
					$names[] = $name;
				}
			}
			return $names;
		}

		private function kept_as( string $name ): string {
			$kept = $this->network ? get_site_option( $name ) : get_option( $name );
			return is_string( $kept ) && preg_match( '/^[0-9a-f]{64}$/D', $kept ) ? $kept : '';
		}

		/**
		 * What all plugins of this site, or of the network, remember that have this client and a license key.
		 *
		 * @return array<string, Memory> By the name of the option.
		 */
		public static function memories( bool $network ): array {
			global $wpdb;
			$like = $wpdb->esc_like( Config::name_for( '' ) ) . '%';
			$rows = $network
				? $wpdb->get_results( $wpdb->prepare( "SELECT meta_key AS name, meta_value AS value FROM $wpdb->sitemeta WHERE site_id = %d AND meta_key LIKE %s", get_current_network_id(), $like ) )
				: $wpdb->get_results( $wpdb->prepare( "SELECT option_name AS name, option_value AS value FROM $wpdb->options WHERE option_name LIKE %s", $like ) );
			$memories = [];
			foreach ( $rows as $row ) {
				$memory = Memory::from( is_serialized( $row->value ) ? @unserialize( $row->value, [ 'allowed_classes' => false ] ) : null );
				if ( '' !== $memory->key ) {
					$memories[ $row->name ] = $memory;
				}
			}
			return $memories;
		}
	}

	/**
	 * The license of this site: activated by a person, validated again in the background, given back on request.
	 */
	final class License extends Stored_License {

		/** Problems that say that there is no place to give back, or that this license or server gives none back. */
		public const NOTHING_TO_RELEASE = [ 'license_not_bound', 'unknown_license', 'license_suspended', 'license_revoked', 'not_found' ];

		/** Problems of a key in another form than the server's that no license has, and the text that explains each. */
		private const NO_KEY = [ 'license_key_checksum' => 'key_mistyped', 'malformed_license_key' => 'unknown_license' ];

		private Server $server;
		private Secret $secret;
		/** @var array<int, array{0: string, 1: array<int, mixed>}> Actions that wait for the lock to be free. */
		private array $announced = [];

		public function __construct( Config $config ) {
			parent::__construct( $config );
			$this->server = new Server( $config );
			$this->secret = new Secret( $config );
		}

		/** What belongs on every page, Stored_License has hooked up already. */
		public function hook(): void {
			add_action( $this->config->name(), [ $this, 'validate_if_due' ] );
			add_action( 'admin_init', [ $this, 'look_at_clock' ] );
			add_action( 'admin_footer', [ $this, 'catch_up_later' ] );
		}

		/**
		 * Asks about a key that a person entered, and keeps it if it is of use.
		 *
		 * A license that works is not given up for a key that does not: it is replaced by an active one only.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function activate( string $key ): string {
			if ( null !== $this->config->fixed_key() ) {
				return 'key_is_fixed';
			}
			return $this->exclusively(
				function ( Memory $memory ) use ( $key ): string {
					// Whether the site has moved or is a copy, the key does not say.
					$is_moved = $key === $memory->key && $this->config->is_elsewhere( $memory );
					return $is_moved ? 'moved' : $this->take( $key, $memory );
				}
			);
		}

		/** Takes over the key that the plugin's former client kept, once, where there is no key. It is validated when that is due. */
		public function take_over(): void {
			$this->exclusively(
				function ( Memory $memory ): string {
					if ( '' === $memory->key && ! $memory->looked_for_former ) {
						$memory->looked_for_former = true;
						$memory->key               = $this->config->former_key();
					}
					return '';
				}
			);
		}

		/**
		 * Takes the license along to the host that the site has now, because a person says that the site has moved. The server gives this
		 * host the old place in one step, for the secret that came along in the database.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function move(): string {
			return $this->exclusively(
				function ( Memory $memory ): string {
					if ( '' === $memory->key ) {
						return Memory::CONDITION_NO_KEY;
					}
					if ( ! $this->config->is_elsewhere( $memory ) || '' === $memory->host() ) {
						return $this->take( $memory->key, $memory );
					}
					$next = $this->secret->next( $memory->key );
					if ( '' === $next || ! $this->save( $memory ) ) {
						// The server would give the place to this host, and the site would not know it.
						return 'not_saved';
					}
					$answer = $this->server->move( $memory->key, $memory, [ $this->secret->read(), $next ], 'https://' . $memory->host() );
					if ( 'license_not_bound' === $answer->code() ) {
						// The old host has no place any more, so nobody can come in between.
						return $this->take( $memory->key, $memory );
					}
					if ( ! $answer->statement ) {
						$memory->trouble = '' !== $answer->detail() ? $answer->detail() : $answer->trouble;
						return '' !== $answer->code() && in_array( $answer->status, [ 400, 403, 422 ], true ) ? 'not_moved' : 'no_answer';
					}
					if ( 'active' === $answer->statement['status'] ) {
						$this->accept( $memory->key, $memory, $answer->statement, $next );
					}
					return $answer->statement['code'];
				}
			);
		}

		/**
		 * Takes the place back that was moved to another site, because a person says that this site is the one. The server does that once for
		 * a move, for three days. This site never asks for it by itself: it may be the one that was left.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function take_back(): string {
			return $this->exclusively(
				function ( Memory $memory ): string {
					if ( '' === $memory->key ) {
						return Memory::CONDITION_NO_KEY;
					}
					if ( $this->config->is_elsewhere( $memory ) ) {
						return 'moved';
					}
					// SECURITY: a new one for all plugins here. The person who moved the license may have the old one.
					$next = $this->secret->next( $memory->key, false );
					if ( '' === $next || ! $this->save( $memory ) ) {
						return 'not_saved';
					}
					$answer = $this->server->validate( $memory->key, $memory, $next, $this->secret->read() );
					if ( ! $answer->statement ) {
						$memory->trouble = $answer->trouble;
						return 'no_answer';
					}
					$is_back = 'active' === $answer->statement['status'];
					$this->accept( $memory->key, $memory, $answer->statement, $is_back ? $next : '' );
					if ( $is_back ) {
						$this->secret->share( $memory->key, $next );
					}
					return 'bound_elsewhere' === $answer->statement['code'] ? 'not_taken_back' : $answer->statement['code'];
				}
			);
		}

		/**
		 * Takes a place for the host that the site has now, because a person says that the site is a copy. The place of the other
		 * site stays, and the secret that releases it is forgotten here.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function copy(): string {
			return $this->exclusively(
				function ( Memory $memory ): string {
					if ( '' === $memory->key || ! $this->config->is_elsewhere( $memory ) ) {
						return '' === $memory->key ? Memory::CONDITION_NO_KEY : $this->ask( $memory );
					}
					$next = $this->secret->next( $memory->key );
					$this->secret->forget();
					$this->secret->keep( $next );
					$memory->host = Statement::host( $this->config->site_url() );
					// What was said of the other site is not said of this one.
					$memory->statement = null;
					return $this->take( $memory->key, $memory );
				}
			);
		}

		private function take( string $key, Memory $memory ): string {
			$secret = $this->secret->of( $key, $key !== $memory->key );
			$answer = $this->server->validate( $key, $memory, $secret );
			// Who moves has a place on the old host, and may try again.
			$is_moved = $key === $memory->key && $this->config->is_elsewhere( $memory );
			$keeps    = $memory->is_active() || ( $is_moved && 'bound_elsewhere' === ( $answer->statement['code'] ?? 'bound_elsewhere' ) );
			if ( $answer->statement && ( 'active' === $answer->statement['status'] || ! $keeps ) ) {
				$this->accept( $key, $memory, $answer->statement, $secret );
			} elseif ( isset( self::NO_KEY[ $answer->code() ] ) ) {
				// Nothing is signed about a key that the server does not know, and nothing changes.
				return self::NO_KEY[ $answer->code() ];
			} elseif ( ! $answer->statement && ! $keeps ) {
				$memory->statement = $key === $memory->key ? $memory->statement : null;
				$memory->key       = $key;
				$memory->host      = Statement::host( $this->config->site_url() );
				$this->secret->keep( $secret );
				$this->fail( $memory, $answer );
			}
			return $answer->statement ? $answer->statement['code'] : 'no_answer';
		}

		/** @param array<string, mixed> $statement What the server signed of this host, because a person asked. */
		private function accept( string $key, Memory $memory, array $statement, string $secret ): void {
			$memory->learn( $key, $statement );
			$this->secret->keep( $secret );
			$this->plan( $memory );
			$this->announce( 'activated', $statement );
			// A license opens the way to updates: let WordPress look again.
			delete_site_transient( $this->config->extension->updates() );
		}

		/**
		 * Asks about the key that is kept, because a person wants to know.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function validate(): string {
			return $this->exclusively( [ $this, 'ask' ] );
		}

		/** Whether the license is in use on another site, and this one has a secret that may take it back. */
		public function may_take_back(): bool {
			$memory = $this->memory();
			return 'bound_elsewhere' === $memory->condition() && ! $this->is_elsewhere() && '' !== $this->secret->read();
		}

		/** Asks in the background. Each site of a network may plan that, and one that asked has asked for all. */
		public function validate_if_due(): void {
			if ( $this->is_elsewhere() ) {
				return;
			}
			$this->exclusively(
				function ( Memory $memory ): string {
					return $memory->wait() ? '' : $this->ask( $memory );
				}
			);
		}

		private function ask( Memory $memory ): string {
			if ( '' === $memory->key ) {
				return Memory::CONDITION_NO_KEY;
			}
			if ( $this->config->is_elsewhere( $memory ) ) {
				return 'moved';
			}
			if ( $memory->pause() ) {
				return 'not_before';
			}
			$secret = $this->secret->of( $memory->key, false );
			$answer = $this->server->validate( $memory->key, $memory, $secret );
			if ( ! $this->secret->is_next( $secret ) || 'active' === ( $answer->statement['status'] ?? '' ) ) {
				$this->secret->keep( $secret );
			}
			if ( ! $answer->statement ) {
				$this->fail( $memory, $answer );
				return 'no_answer';
			}
			$memory->learn( $memory->key, $answer->statement );
			$this->plan( $memory );
			$this->announce( 'validated', $answer->statement );
			return $answer->statement['code'];
		}

		/**
		 * Gives the site's place back, and forgets the license where the server has signed that it did.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function deactivate(): string {
			if ( null !== $this->config->fixed_key() ) {
				return 'key_is_fixed';
			}
			return $this->exclusively(
				function ( Memory $memory ): string {
					if ( '' === $memory->key ) {
						return $this->forget( $memory, 'removed' );
					}
					if ( $this->config->is_elsewhere( $memory ) ) {
						// Without what is remembered, a site that has moved could never give its old place back.
						return 'moved';
					}
					$memory->look_at_clock();
					if ( ! $this->save( $memory ) ) {
						// The place would be given back, and the site would not know it.
						return 'not_saved';
					}
					$answer = $this->server->release( $memory->key, $memory, $this->secret->read() );
					if ( $answer->statement ) {
						// The next binding gets a secret of its own.
						$this->secret->forget();
						return $this->forget( $memory, 'deactivated' );
					}
					if ( ! $memory->grants() || in_array( $answer->code(), self::NOTHING_TO_RELEASE, true ) ) {
						return $this->forget( $memory, 'removed' );
					}
					$memory->trouble = '' !== $answer->detail() ? $answer->detail() : $answer->trouble;
					return 'not_released';
				}
			);
		}

		/**
		 * Forgets the license without asking the server: the site keeps its place until its vendor releases it.
		 *
		 * @return string What came of it: a Texts name.
		 */
		public function remove(): string {
			if ( null !== $this->config->fixed_key() ) {
				return 'key_is_fixed';
			}
			return $this->exclusively(
				function ( Memory $memory ): string {
					return $this->forget( $memory, 'removed' );
				}
			);
		}

		/** Forgets the key and all that was learned with it. */
		private function forget( Memory $memory, string $outcome ): string {
			// What the server said for this license is not for the next one.
			delete_site_transient( $this->config->name() );
			delete_site_transient( $this->config->name() . '_refused' );
			delete_site_transient( $this->config->extension->updates() );
			$this->announce( 'deactivated' );
			foreach ( get_object_vars( new Memory() ) as $name => $blank ) {
				$memory->$name = $blank;
			}
			$memory->looked_for_former = true;
			$this->unschedule();
			return $outcome;
		}

		/** The server refused an update, unsigned: nothing changes, but a signed answer is wanted soon. */
		public function doubt(): void {
			$memory = $this->memory();
			if ( $memory->wait() > MINUTE_IN_SECONDS && $memory->elapsed() > HOUR_IN_SECONDS ) {
				$this->exclusively(
					function ( Memory $memory ): string {
						$memory->next_question = time() + MINUTE_IN_SECONDS;
						return '';
					}
				);
				$this->schedule();
			}
		}

		/** Where WP-Cron is a day late, an administrator's page asks instead, when it has been sent. */
		public function catch_up_later(): void {
			$memory = $this->memory();
			if ( '' !== $memory->key && time() > $memory->next_question + DAY_IN_SECONDS ) {
				add_action( 'shutdown', [ $this, 'catch_up' ], 100 );
			}
		}

		public function catch_up(): void {
			function_exists( 'fastcgi_finish_request' ) && fastcgi_finish_request();
			$this->validate_if_due();
		}

		/** Looks at the clock once an hour, and whenever it went back. */
		public function look_at_clock(): void {
			$memory = $this->memory();
			$passed = time() - $memory->seen;
			if ( $memory->grants() && ( $passed < 0 || $passed > HOUR_IN_SECONDS ) ) {
				$this->exclusively(
					function ( Memory $memory ): string {
						$memory->look_at_clock();
						return '';
					}
				);
			}
		}

		/** Plans the next validation after an answer: daily, or twice in a shorter grace, at no time that all sites share. */
		private function plan( Memory $memory ): void {
			$longest = $memory->grants() ? min( DAY_IN_SECONDS, intdiv( $memory->grace(), 2 ) ) : DAY_IN_SECONDS;
			$memory->next_question = time() + max( HOUR_IN_SECONDS, $longest - wp_rand( 0, intdiv( $longest, 4 ) ) );
			$this->reschedule( $memory->next_question );
		}

		/** No answer: the clock runs on, and the next question waits longer each time, up to six hours. */
		private function fail( Memory $memory, Answer $answer ): void {
			$memory->look_at_clock();
			$memory->trouble          = $answer->trouble;
			$this->announce( 'no_answer', $answer->trouble );
			$memory->failures         = min( $memory->failures + 1, 20 );
			$memory->retry_not_before = $answer->retry_after ? time() + $answer->retry_after : 0;

			$wait = min( 6 * HOUR_IN_SECONDS, 150 * 2 ** $memory->failures );
			$memory->next_question = time() + max( $answer->retry_after, $wait + wp_rand( 0, intdiv( $wait, 4 ) ) );
			$this->reschedule( $memory->next_question );
		}

		/**
		 * Changes the memory while no other process does; a lost write would be a lost statement.
		 *
		 * @param callable(Memory): string $change
		 */
		private function exclusively( callable $change ): string {
			$why_not = $this->where_the_lock_is( [ $this, 'lock' ] );
			if ( '' !== $why_not ) {
				return $why_not;
			}
			try {
				$memory    = $this->fresh_memory();
				$condition = $memory->condition();
				$outcome   = $change( $memory );
				$memory->server = '' === $memory->key ? '' : $this->config->base_url;
				$saved     = $this->save( $memory );
			} finally {
				$this->where_the_lock_is( [ $this, 'unlock' ] );
			}
			if ( ! $saved ) {
				// What is not kept did not happen; the page that asked says so.
				$this->announced = [];
				return 'not_saved';
			}
			if ( $memory->condition() !== $condition ) {
				// What the server refused before, it may answer now.
				delete_site_transient( $this->config->name() . '_pause' );
				// A person who dismissed the last notice has not read the next one.
				delete_metadata( 'user', 0, Config::name_of_dismissed( $this->config->slug, $this->config->network ), '', true );
				$this->announce( 'condition', $memory->condition(), $condition );
			}
			$this->act();
			return $outcome;
		}

		/**
		 * Keeps an action for when the lock is free.
		 *
		 * @param mixed ...$arguments
		 */
		private function announce( string $action, ...$arguments ): void {
			$this->announced[] = [ $this->config->name() . '_' . $action, $arguments ];
		}

		private function act(): void {
			$announced       = $this->announced;
			$this->announced = [];
			foreach ( $announced as list( $action, $arguments ) ) {
				do_action_ref_array( $action, $arguments );
			}
		}

		/**
		 * A lock is an option of one site; what a network remembers needs one that all its sites share.
		 *
		 * @return mixed
		 */
		private function where_the_lock_is( callable $do ) {
			$this->config->network && switch_to_blog( get_main_site_id() );
			try {
				return $do();
			} finally {
				$this->config->network && restore_current_blog();
			}
		}

		/** @return string Empty where this process has the lock now; or why not, by its name in Texts. */
		private function lock(): string {
			require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php';
			$name = $this->config->name();
			// WordPress would remove a lock that a dead process left, and try again for ever where the database cannot be written.
			$this->is_dead( $this->locked_at() ) && $this->unlock();
			if ( $this->is_dead( $this->locked_at() ) ) {
				return 'not_saved';
			}
			if ( \WP_Upgrader::create_lock( $name, MINUTE_IN_SECONDS ) ) {
				return '';
			}
			return $this->locked_at() ? 'busy' : 'not_saved';
		}

		/**
		 * When somebody locked; 0 where nobody has. WordPress takes a lock past its cache: what a lasting cache has kept, above all
		 * that there is no lock, would keep one that a dead process left for ever.
		 */
		private function locked_at(): int {
			foreach ( [ 'notoptions', $this->config->name() . '.lock' ] as $cached ) {
				wp_cache_delete( $cached, 'options' );
			}
			return (int) get_option( $this->config->name() . '.lock' );
		}

		/** Whether a lock is older than any process that holds it, or of a clock that was far ahead. */
		private function is_dead( int $locked_at ): bool {
			return $locked_at && abs( time() - $locked_at ) >= MINUTE_IN_SECONDS;
		}

		private function unlock(): bool {
			return \WP_Upgrader::release_lock( $this->config->name() );
		}

		/** The memory as it is stored now: what this process read before it had the lock may be out of date. */
		private function fresh_memory(): Memory {
			$name    = $this->config->name();
			$network = get_current_network_id() . ':';
			// SECURITY: that there was no such option is kept, too, and a blank memory would be written over a license.
			foreach ( [ 'alloptions', 'notoptions', $name ] as $cached ) {
				wp_cache_delete( $cached, 'options' );
			}
			foreach ( [ 'notoptions', $name ] as $cached ) {
				wp_cache_delete( $network . $cached, 'site-options' );
			}
			return $this->memory();
		}

		/** Whether the memory is stored as it is now: a full or read-only database refuses without an error of PHP's. */
		private function save( Memory $memory ): bool {
			$name    = $this->config->name();
			$value   = get_object_vars( $memory );
			$changed = $this->config->network ? update_site_option( $name, $value ) : update_option( $name, $value, true );
			if ( $changed ) {
				return true;
			}
			// Nothing was to be changed, or nothing could be.
			$this->fresh_memory();
			$stored = $this->config->network ? get_site_option( $name ) : get_option( $name );
			return maybe_serialize( $stored ) === maybe_serialize( $value );
		}
	}

	/**
	 * Deleting the plugin releases the site's seat and removes all that was stored.
	 *
	 * The plugin is not loaded then, so all that is needed comes from what was stored. Uninstalling takes five
	 * seconds at most and reports no result.
	 */
	final class Uninstallation {

		private const SECONDS = 5;

		private string $slug;
		private string $name;
		/** @var array<int, array{server: string, question: array<string, string>, site: int}> Places to give back. */
		private array $places = [];
		/** @var array<string, true> The licenses that other plugins have here, each with its host. */
		private array $needed = [];

		public function __construct( string $slug ) {
			$this->slug = $slug;
			$this->name = Config::name_for( $slug );
		}

		public function run(): void {
			$sites = is_multisite() ? get_sites( [ 'fields' => 'ids', 'number' => 0 ] ) : [ get_current_blog_id() ];
			foreach ( $sites as $site ) {
				is_multisite() && switch_to_blog( $site );
				$this->look( (int) $site, get_option( $this->name ), (string) get_option( 'home' ) );
				delete_option( $this->name );
				delete_option( $this->name . '.lock' );
				wp_unschedule_hook( $this->name );
				delete_metadata( 'user', 0, Config::name_of_dismissed( $this->slug, false ), '', true );
				$this->look_at_others( false );
				is_multisite() && restore_current_blog();
			}
			if ( is_multisite() ) {
				$this->look( 0, get_site_option( $this->name ), network_home_url() );
				$this->look_at_others( true );
			}
			delete_site_option( $this->name );
			delete_site_option( Channel::name_for( $this->slug ) );
			delete_site_option( Updates::name_of_fled( $this->slug ) );
			delete_metadata( 'user', 0, Config::name_of_dismissed( $this->slug, true ), '', true );
			foreach ( [ '', '_pause', '_again', '_refused' ] as $transient ) {
				delete_site_transient( $this->name . $transient );
			}
			$this->leave( array_merge( $sites, is_multisite() ? [ 0 ] : [] ) );
		}

		/**
		 * Notes the place that a site has, or the network (0).
		 *
		 * @param mixed $stored What the option holds.
		 */
		private function look( int $site, $stored, string $site_url ): void {
			$memory = Memory::from( $stored );
			$status = $memory->statement['status'] ?? 'active';
			// SECURITY: a copy of a site that has not said that it is one, or this request's forged host, gives no other site's
			// place back.
			$is_here = $memory->host() === Statement::host( $site_url );
			if ( '' === $memory->key || ! $is_here || ! Config::is_safe( $memory->server ) || ! in_array( $status, [ 'active', 'expired' ], true ) ) {
				return;
			}
			$question       = [ 'license_key' => $memory->key, 'site_url' => $site_url, 'release_secret' => $this->secret( $site ) ];
			$this->places[] = [ 'server' => $memory->server, 'question' => array_filter( $question, 'strlen' ), 'site' => $site ];
		}

		/** Notes the licenses of other plugins. Whichever of them is deleted last gives the place back. */
		private function look_at_others( bool $network ): void {
			foreach ( Secret::memories( $network ) as $name => $memory ) {
				if ( $name !== $this->name ) {
					$this->needed[ $memory->key . ' ' . $memory->host() ] = true;
				}
			}
		}

		/** @param int[] $sites */
		private function leave( array $sites ): void {
			$deadline = microtime( true ) + self::SECONDS;
			$kept     = [];
			foreach ( $this->places as $place ) {
				$left      = (int) ceil( $deadline - microtime( true ) );
				$is_needed = isset( $this->needed[ $place['question']['license_key'] . ' ' . Statement::host( $place['question']['site_url'] ) ] );
				if ( ! $is_needed && ( $left <= 0 || ! $this->is_released( $place, $left ) ) ) {
					// If the plugin is installed again, the place can be given back with it still.
					$kept[] = $place['site'];
				}
			}
			foreach ( array_diff( $sites, $kept ) as $site ) {
				$this->forget_secret( (int) $site );
			}
		}

		/**
		 * Whether the server has no place for the site any more. It is asked without a nonce: the keys that would verify its answer
		 * are in the plugin's code.
		 *
		 * @param array{server: string, question: array<string, string>, site: int} $place
		 */
		private function is_released( array $place, int $seconds ): bool {
			$options  = [
				'method'              => 'POST',
				'timeout'             => $seconds,
				'limit_response_size' => MB_IN_BYTES,
				'headers'             => [ 'Content-Type' => 'application/json' ],
				'body'                => (string) wp_json_encode( $place['question'] ),
			];
			$response = Http::request( $place['server'] . '/api/v1/release-site', $options );
			$answer   = new Answer();

			$answer->status = (int) wp_remote_retrieve_response_code( $response );
			$answer->body   = (string) wp_remote_retrieve_body( $response );
			$said           = json_decode( $answer->body, true, 16 );
			return ( 200 === $answer->status && 'released' === ( $said['status'] ?? '' ) )
				|| in_array( $answer->code(), License::NOTHING_TO_RELEASE, true );
		}

		private function secret( int $site ): string {
			$secret = 0 === $site ? get_site_option( Secret::name_for( $this->slug ) ) : get_option( Secret::name_for( $this->slug ) );
			return is_string( $secret ) ? $secret : '';
		}

		private function forget_secret( int $site ): void {
			$names = [ Secret::name_for( $this->slug ), Secret::next_name_for( $this->slug ) ];
			if ( 0 === $site ) {
				array_map( 'delete_site_option', $names );
				return;
			}
			is_multisite() && switch_to_blog( $site );
			array_map( 'delete_option', $names );
			is_multisite() && restore_current_blog();
		}
	}

	/**
	 * The questions to the server, over HTTP.
	 */
	final class Server {

		private Config $config;

		public function __construct( Config $config ) {
			$this->config = $config;
		}

		/**
		 * Whether the license is good for this site. The request has the hash of the secret that releases the site.
		 *
		 * @param string $old_secret Takes a place back; only where a person asks for that.
		 */
		public function validate( string $key, Memory $memory, string $secret, string $old_secret = '' ): Answer {
			$question = $this->about_this_site( $secret ) + array_filter( [ 'release_secret' => $old_secret ], 'strlen' );
			return $this->ask_about( $key, $memory, '/api/v1/validate-license', $question + $this->platform(), [] );
		}

		/** Gives this site's place back; there is a statement only where the server signed that it did. */
		public function release( string $key, Memory $memory, string $secret ): Answer {
			$question = array_filter( [ 'release_secret' => $secret ], 'strlen' );
			return $this->ask_about( $key, $memory, '/api/v1/release-site', $question, [ 'status' => 'released' ] );
		}

		/**
		 * Gives this site the place of its old address, in one step. The answer is as that of a validation.
		 *
		 * @param string[] $secrets That of the old address, and the next one.
		 */
		public function move( string $key, Memory $memory, array $secrets, string $old_url ): Answer {
			$question = [
				'site_url'       => $old_url,
				'new_site_url'   => $this->config->site_url(),
				'release_secret' => $secrets[0],
			] + $this->about_this_site( $secrets[1] );
			return $this->ask_about( $key, $memory, '/api/v1/release-site', array_filter( $question, 'strlen' ), [] );
		}

		/** @return array<string, string> */
		private function about_this_site( string $secret ): array {
			return [
				'plugin_version' => $this->config->extension->header( 'Version' ),
				'build_id'       => $this->config->build_id(),
				'release_hash'   => '' === $secret ? '' : hash( 'sha256', $secret ),
			];
		}

		/**
		 * What the server counts by day, and keeps of no site; nothing where the plugin or the site says no.
		 *
		 * @return array<string, string>
		 */
		private function platform(): array {
			if ( ! apply_filters( $this->config->name() . '_platform', $this->config->tells_platform ) ) {
				return [];
			}
			return [
				'plugin'      => $this->config->slug,
				'wp_version'  => (string) get_bloginfo( 'version' ),
				'php_version' => PHP_VERSION,
			];
		}

		/**
		 * Asks something about a license and this site, and verifies what comes back.
		 *
		 * @param array<string, string> $question
		 * @param array<string, string> $expected What the statement must say beside what every statement must.
		 */
		private function ask_about( string $key, Memory $memory, string $target, array $question, array $expected ): Answer {
			$nonce    = bin2hex( random_bytes( 16 ) );
			$site_url = $this->config->site_url();
			$question = [ 'license_key' => $key, 'nonce' => $nonce ] + $question + [ 'site_url' => $site_url ];
			$answer   = $this->request(
				$target,
				[
					'method'  => 'POST',
					// Nobody waits for WP-Cron.
					'timeout' => wp_doing_cron() ? 8 : 5,
					'headers' => [ 'Content-Type' => 'application/json' ],
					'body'    => (string) wp_json_encode( $question ),
				]
			);
			if ( '' !== $answer->trouble ) {
				return $answer;
			}
			try {
				$expected         += [
					'nonce'      => $nonce,
					'site_url'   => $site_url,
					'domain'     => Statement::host( $site_url ),
					'license_id' => License_Key::id( $key ),
				];
				$last_issued_at    = $memory->statement['issued_at'] ?? '';
				$answer->statement = Statement::verify( $answer->body, $this->config->public_keys, $expected, $last_issued_at );
			} catch ( Not_Genuine $reason ) {
				$answer->trouble = $reason->getMessage();
			}
			return $answer;
		}

		/** The latest manifest, or an empty answer where the version is the latest. An empty version asks for any. */
		public function updates( string $key, string $version ): Answer {
			$answer = $this->ask_for_release( $key, $version, '/api/v1/updates/' . $this->config->slug, [ 'holds' => '1', 'wave' => $this->wave() ] );
			if ( 403 === $answer->status ) {
				$problem = json_decode( $answer->body, true );
				if ( 'license_expired' === ( $problem['code'] ?? '' ) && isset( $problem['latest'] ) ) {
					// A version, and no more: what could be installed is not for an expired license.
					$news           = array_intersect_key( (array) $problem['latest'], [ 'version' => 0, 'security' => 0 ] );
					$latest         = Manifest::read( $news, $this->config->slug, $this->config->pins_releases );
					$answer->latest = $latest ? $latest : null;
					// Something is out, and nobody can say which version.
					$answer->unreadable = ! $latest;
				}
			}
			return $answer;
		}

		/** The security release that the vendor gives to expired licenses, too, or an empty answer where there is none for this site. */
		public function security_update( string $key, string $version ): Answer {
			return $this->ask_for_release( $key, $version, '/api/v1/security-updates/' . $this->config->slug );
		}

		/** The versions that this site may go back to, newest first. */
		public function earlier( string $key, string $installed ): Answer {
			$answer = $this->ask_about_releases( $key, $installed, '/api/v1/releases/' . $this->config->slug, [] );
			if ( '' !== $answer->trouble ) {
				return $answer;
			}
			$said     = json_decode( $answer->body, true, 8 );
			$releases = is_array( $said ) ? $said['releases'] ?? null : null;
			if ( ! is_array( $releases ) ) {
				$answer->trouble = 'it has no releases';
				return $answer;
			}
			foreach ( $releases as $release ) {
				$fields   = array_intersect_key( (array) $release, [ 'version' => 0, 'last_updated' => 0 ] );
				$manifest = Manifest::read( $fields, $this->config->slug, $this->config->pins_releases );
				if ( $manifest && version_compare( $manifest['version'], $installed, '<' ) ) {
					$answer->earlier[] = $manifest;
				}
			}
			return $answer;
		}

		/** The manifest of a version that this site may go back to. */
		public function earlier_release( string $key, string $installed, string $version ): Answer {
			$target = '/api/v1/releases/' . $this->config->slug . '/' . rawurlencode( $version );
			return $this->ask_for_release( $key, $installed, $target );
		}

		/**
		 * A manifest, or an empty answer where there is none for this site.
		 *
		 * @param array<string, string> $wishes More of the question.
		 */
		private function ask_for_release( string $key, string $version, string $target, array $wishes = [] ): Answer {
			$answer = $this->ask_about_releases( $key, $version, $target, $wishes );
			if ( '' === $answer->trouble ) {
				$said             = json_decode( $answer->body, true, 16 );
				$answer->manifest = Manifest::read( $said, $this->config->slug, $this->config->pins_releases );
				$answer->trouble  = null === $answer->manifest ? Manifest::flaw( $said, $this->config->slug ) : '';
				$answer->link     = $answer->manifest ? Manifest::link( $said ) : '';
				$answer->release  = $answer->manifest ? $said['release'] ?? null : null;
			}
			return $answer;
		}

		/** @param array<string, string> $wishes */
		private function ask_about_releases( string $key, string $version, string $target, array $wishes ): Answer {
			$query = $wishes + [
				'channel'         => ( new Channel( $this->config ) )->wish(),
				'site_url'        => $this->config->site_url(),
				'build_id'        => $this->config->build_id(),
				'current_version' => $version,
			];
			return $this->request(
				$target . '?' . http_build_query( array_filter( $query ), '', '&' ),
				[
					'timeout' => wp_doing_cron() ? 8 : 3,
					// SECURITY: not in the address, which proxies and servers write to their logs.
					'headers' => [ 'Authorization' => 'License ' . $key ],
				]
			);
		}

		/** Which of the steps of a release the site wishes for; empty where it has no wish. */
		private function wave(): string {
			$constant = (string) $this->config->settings['wave_constant'];
			$wave     = '' !== $constant && defined( $constant ) ? constant( $constant ) : $this->config->settings['wave'];
			$wave     = apply_filters( $this->config->name() . '_wave', $wave );
			return in_array( $wave, [ 'first', 'last' ], true ) ? $wave : '';
		}

		/** @param array<string, mixed> $options */
		private function request( string $target, array $options ): Answer {
			$answer = new Answer();
			if ( ! Config::is_safe( $this->config->base_url ) ) {
				$answer->trouble = 'base_url is not https';
				return $answer;
			}
			// SECURITY: redirects are not followed, so the key goes to the server that was configured and nowhere else.
			$url      = $this->config->base_url . $target;
			$options += [ 'method' => 'GET' ];
			$response = Http::request( $url, (array) apply_filters( $this->config->name() . '_request', $options, $url ) );
			if ( is_wp_error( $response ) ) {
				$answer->trouble = $response->get_error_message();
				return $answer;
			}
			$answer->status      = (int) wp_remote_retrieve_response_code( $response );
			$answer->body        = (string) wp_remote_retrieve_body( $response );
			$answer->trouble     = 200 === $answer->status ? '' : 'HTTP status ' . $answer->status;
			// An array where it was sent twice.
			$retry_after         = (array) wp_remote_retrieve_header( $response, 'retry-after' );
			$answer->retry_after = self::seconds( (string) reset( $retry_after ) );
			return $answer;
		}

		/** Reads Retry-After (RFC 9110 section 10.2.3), seconds or a date; a day at most, so that no proxy silences a site. */
		private static function seconds( string $retry_after ): int {
			$seconds = preg_match( '/^\d+$/D', $retry_after ) ? (int) $retry_after : (int) strtotime( $retry_after ) - time();
			return max( 0, min( DAY_IN_SECONDS, $seconds ) );
		}
	}

	/**
	 * One HTTP request through WordPress, with a bound on its size and its time whatever transport PHP has.
	 */
	final class Http {

		/** The code of the error where the server sends more than it should. */
		public const TOO_LARGE = 'countersign_too_large';

		/**
		 * Makes one request and follows no redirect. The transfer is cut off behind `limit_response_size`, or 1 MiB where the
		 * options name none: WordPress' own limit bounds what is kept, and not what is sent.
		 *
		 * @param array<string, mixed> $options As wp_remote_request() takes them; `timeout` bounds the whole request.
		 * @param bool                 $unpacks Whether an answer that comes compressed all the same is unpacked.
		 * @return array<string, mixed>|\WP_Error
		 */
		public static function request( string $url, array $options, bool $unpacks = false ) {
			$options['redirection'] = 0;
			$options['headers']     = ( $options['headers'] ?? [] ) + [ 'Accept-Encoding' => 'identity' ];

			$limit    = (int) ( $options['limit_response_size'] ?? MB_IN_BYTES );
			$received = 0;
			$is_cut   = false;
			// One byte more, so that what is too long shows, whatever transport PHP has.
			$options['limit_response_size'] = $limit + 1;

			$progress = function ( $handle, $expected, $so_far ) use ( $limit, &$received, &$is_cut ): int {
				$received = max( $received, (int) $so_far );
				$is_cut   = $is_cut || $expected > $limit || $so_far > $limit;
				return $is_cut ? 1 : 0;
			};
			$has_curl = false;
			$watch    = function ( $handle ) use ( $progress, $unpacks, &$has_curl ): void {
				$has_curl = true;
				self::watch( $handle, $progress, $unpacks );
			};
			$count    = function ( $block, $written ) use ( $limit, &$has_curl ): void {
				// cURL is not ended by an exception in one of its functions, and calls none of them afterwards.
				if ( ! $has_curl && $written > $limit ) {
					Sockets::fail( Sockets::TOO_LARGE );
				}
			};
			$choose   = [ __CLASS__, 'choose_transport' ];
			$keep     = [ __CLASS__, 'keep_encoding' ];
			add_action( 'http_api_curl', $watch, PHP_INT_MAX );
			add_action( 'requests-request.progress', $count, 10, 2 );
			add_action( 'requests-requests.before_request', $choose, 10, 5 );
			add_action( 'requests-requests.before_parse', $keep, 10, 1 );
			try {
				$response = wp_remote_request( $url, $options );
			} finally {
				remove_action( 'http_api_curl', $watch, PHP_INT_MAX );
				remove_action( 'requests-request.progress', $count, 10 );
				remove_action( 'requests-requests.before_request', $choose, 10 );
				remove_action( 'requests-requests.before_parse', $keep, 10 );
			}
			if ( is_wp_error( $response ) ) {
				$is_cut = $is_cut || Sockets::TOO_LARGE === $response->get_error_message();
				return $is_cut ? new \WP_Error( self::TOO_LARGE, Sockets::TOO_LARGE ) : $response;
			}
			$is_short = '' !== (string) ( $options['filename'] ?? '' ) && self::size( $options['filename'] ) < $received;
			// With cURL, WordPress does not notice what it cannot write.
			return $is_short ? new \WP_Error( 'http_request_failed', Sockets::NOT_WRITTEN ) : $response;
		}

		private static function size( string $file ): int {
			clearstatcache( true, $file );
			return (int) filesize( $file );
		}

		/** @param resource|\CurlHandle $handle */
		private static function watch( $handle, callable $progress, bool $unpacks ): void {
			curl_setopt( $handle, CURLOPT_NOPROGRESS, false );
			curl_setopt( $handle, CURLOPT_PROGRESSFUNCTION, $progress );
			// What is slower than this would not be done in time.
			curl_setopt( $handle, CURLOPT_LOW_SPEED_LIMIT, KB_IN_BYTES );
			curl_setopt( $handle, CURLOPT_LOW_SPEED_TIME, Download::SECONDS_WITHOUT_DATA );
			// SECURITY: bytes are counted as they are sent, and a few of them could unpack to very many.
			$unpacks || curl_setopt( $handle, CURLOPT_HTTP_CONTENT_DECODING, false );
		}

		/**
		 * WordPress' own transport for a PHP without cURL bounds each read, and neither the whole nor the headers. No request
		 * follows a redirect, whichever transport makes it.
		 *
		 * @param string               $url
		 * @param mixed                $headers
		 * @param mixed                $data
		 * @param string               $type
		 * @param array<string, mixed> $options
		 */
		public static function choose_transport( &$url, &$headers, &$data, &$type, &$options ): void {
			$has_curl = function_exists( 'curl_init' ) && function_exists( 'curl_exec' );
			if ( ! $has_curl && empty( $options['proxy'] ) ) {
				$options['transport'] = new Sockets();
			}
			// SECURITY: another plugin's filter of all requests may have turned this on, and the key would be sent along.
			$options['follow_redirects'] = false;
		}

		/**
		 * SECURITY: WordPress unpacks a body without a bound, so a few kilobytes could fill the memory. No compressed answer
		 * was asked for, and one that comes is left as it is.
		 *
		 * @param string $raw The headers and the body.
		 */
		public static function keep_encoding( &$raw ): void {
			$parts    = explode( "\r\n\r\n", (string) $raw, 2 );
			$parts[0] = preg_replace( '/\nContent-Encoding:[^\n]*/i', '', $parts[0] );
			$raw      = implode( "\r\n\r\n", $parts );
		}
	}

	/**
	 * A transport for WordPress' HTTP library that ends in time: connecting, the headers and the body together.
	 */
	final class Sockets {

		public const TOO_LARGE   = 'the answer is too large';
		public const NOT_WRITTEN = 'the file could not be written: is the disk full?';

		private const LONGEST_HEAD = 65536;

		/** When the request has to be done, in seconds as microtime() counts. */
		private float $deadline = 0.0;

		/**
		 * @param string                $url
		 * @param array<string, string> $headers
		 * @param mixed                 $data    The body, or nothing.
		 * @param array<string, mixed>  $options
		 * @return string The headers, and behind an empty line the body, unless that went into a file.
		 */
		public function request( $url, $headers = [], $data = [], $options = [] ) {
			$this->deadline = microtime( true ) + (float) $options['timeout'];

			$body   = is_string( $data ) ? $data : '';
			$socket = $this->connect( $url, $options );
			try {
				fwrite( $socket, $this->head( $url, $headers, $body, $options ) . $body );
				stream_set_blocking( $socket, false );
				return $this->receive( $socket, (int) $options['max_bytes'], (string) $options['filename'] );
			} finally {
				fclose( $socket );
			}
		}

		/**
		 * @param array<string, mixed> $options
		 * @return resource
		 */
		private function connect( string $url, array $options ) {
			$host    = (string) wp_parse_url( $url, PHP_URL_HOST );
			$secure  = 'https' === strtolower( (string) wp_parse_url( $url, PHP_URL_SCHEME ) );
			$port    = (int) ( wp_parse_url( $url, PHP_URL_PORT ) ?: ( $secure ? 443 : 80 ) );
			$verify  = false !== $options['verify'];
			$context = stream_context_create(
				[
					'ssl' => [
						'verify_peer'      => $verify,
						'verify_peer_name' => $verify && false !== ( $options['verifyname'] ?? true ),
						'peer_name'        => trim( $host, '[]' ),
						'SNI_enabled'      => true,
					] + ( is_string( $options['verify'] ) ? [ 'cafile' => $options['verify'] ] : [] ),
				]
			);
			$timeout = max( 1, min( (int) $options['timeout'], (int) ceil( (float) $options['connect_timeout'] ) ) );
			$address = ( $secure ? 'ssl://' : 'tcp://' ) . $host . ':' . $port;
			// A warning is no more than the exception says.
			$socket = @stream_socket_client( $address, $number, $reason, $timeout, STREAM_CLIENT_CONNECT, $context );
			return $socket ? $socket : self::fail( '' === $reason ? 'the connection failed' : $reason );
		}

		/**
		 * The request's head. HTTP/1.0, so that no answer comes in chunks.
		 *
		 * @param array<string, string> $headers
		 * @param array<string, mixed>  $options
		 */
		private function head( string $url, array $headers, string $body, array $options ): string {
			$parts = wp_parse_url( $url );
			$path  = ( $parts['path'] ?? '/' ) . ( isset( $parts['query'] ) ? '?' . $parts['query'] : '' );
			$lines = [
				$options['type'] . ' ' . $path . ' HTTP/1.0',
				'Host: ' . $parts['host'] . ( isset( $parts['port'] ) ? ':' . $parts['port'] : '' ),
				'User-Agent: ' . $options['useragent'],
				'Connection: close',
			];
			foreach ( $headers as $name => $value ) {
				$lines[] = $name . ': ' . $value;
			}
			if ( '' !== $body ) {
				$lines[] = 'Content-Length: ' . strlen( $body );
			}
			// SECURITY: a line break in a value would be a header of its own.
			return implode( "\r\n", preg_replace( '/[\r\n]+/', ' ', $lines ) ) . "\r\n\r\n";
		}

		/** @param resource $socket */
		private function receive( $socket, int $limit, string $filename ): string {
			$head = '';
			while ( false === strpos( $head, "\r\n\r\n" ) ) {
				$block = $this->read( $socket );
				$head .= $block;
				if ( '' === $block || strlen( $head ) > self::LONGEST_HEAD ) {
					self::fail( 'the answer has no readable headers' );
				}
			}
			list( $head, $block ) = explode( "\r\n\r\n", $head, 2 );
			if ( preg_match( '/\nTransfer-Encoding:/i', $head ) ) {
				self::fail( 'the answer came in chunks' );
			}
			$expected = preg_match( '/\nContent-Length:[ \t]*(\d{1,15})[ \t\r]*(\n|$)/i', $head, $found ) ? (int) $found[1] : null;

			if ( $limit && $expected > $limit ) {
				self::fail( self::TOO_LARGE );
			}

			// The body may come later than the headers do.
			$block    = '' === $block && 0 !== $expected ? $this->read( $socket ) : $block;
			$file     = '' === $filename ? null : fopen( $filename, 'wb' );
			$body     = '';
			$received = 0;
			while ( '' !== $block ) {
				$received += strlen( $block );
				if ( $limit && $received > $limit ) {
					self::fail( self::TOO_LARGE );
				}
				if ( false === $file || ( $file && strlen( $block ) !== fwrite( $file, $block ) ) ) {
					self::fail( self::NOT_WRITTEN );
				}
				$body .= $file ? '' : $block;
				$block = null !== $expected && $received >= $expected ? '' : $this->read( $socket );
			}
			$file && fclose( $file );
			if ( null !== $expected && $received < $expected ) {
				self::fail( 'the answer is cut short' );
			}
			return $file ? $head : $head . "\r\n\r\n" . $body;
		}

		/**
		 * The next bytes; empty at the end.
		 *
		 * @param resource $socket
		 */
		private function read( $socket ): string {
			$silent_since = microtime( true );
			while ( true ) {
				// First the read: what TLS has decrypted already is not seen by a wait.
				$block = (string) fread( $socket, 65536 );
				if ( '' !== $block || feof( $socket ) ) {
					return $block;
				}
				$left = $this->deadline - microtime( true );
				if ( $left <= 0 || microtime( true ) - $silent_since > Download::SECONDS_WITHOUT_DATA ) {
					self::fail( 'the answer took too long' );
				}
				$readable  = [ $socket ];
				$writable  = null;
				$exception = null;
				stream_select( $readable, $writable, $exception, 0, (int) min( 200000, $left * 1000000 ) );
			}
		}

		/** @return never */
		public static function fail( string $reason ) {
			// It has another name since WordPress 6.2.
			$class = class_exists( '\WpOrg\Requests\Exception' ) ? '\WpOrg\Requests\Exception' : '\Requests_Exception';
			throw new $class( $reason, 'countersign' );
		}
	}

	/**
	 * The download of a package.
	 */
	final class Download {

		private const LONGEST_CHAIN = 5;
		public const LARGEST        = 512 * MB_IN_BYTES;
		private const SECONDS       = 300;

		public const SECONDS_WITHOUT_DATA = 20;

		/**
		 * Fetches a package into a temporary file.
		 *
		 * SECURITY: every address of a chain of redirects is looked at before it is asked.
		 *
		 * @param array{redirect: string, server: string} $refused What is said where an address is not safe, and where the server
		 *                                                         refuses, with its `{reason}`.
		 * @param int|null                                $size    What the package has in bytes, where that is known.
		 * @return string|\WP_Error The file's path.
		 */
		public static function fetch( string $url, array $refused, ?int $size ) {
			require_once ABSPATH . 'wp-admin/includes/file.php';
			$file     = wp_tempnam( basename( (string) wp_parse_url( $url, PHP_URL_PATH ) ) );
			$deadline = time() + self::SECONDS;
			$result   = new \WP_Error( 'countersign_redirects', $refused['redirect'] );
			for ( $hop = 0; $hop <= self::LONGEST_CHAIN && Config::is_safe( $url ); $hop++ ) {
				$options  = [
					'method'              => 'GET',
					'timeout'             => max( 1, $deadline - time() ),
					'reject_unsafe_urls'  => true,
					'stream'              => true,
					'filename'            => $file,
					'limit_response_size' => $size ?? self::LARGEST,
				];
				$response = Http::request( $url, $options, null === $size );
				$location = is_wp_error( $response ) ? '' : wp_remote_retrieve_header( $response, 'location' );
				$status   = (int) wp_remote_retrieve_response_code( $response );
				if ( ! in_array( $status, [ 301, 302, 303, 307, 308 ], true ) || ! is_string( $location ) || '' === $location ) {
					$result = self::result( $response, $status, $file, $refused['server'] );
					break;
				}
				$url = self::next( $url, $location );
			}
			if ( is_wp_error( $result ) && file_exists( $file ) ) {
				wp_delete_file( $file );
			}
			return $result;
		}

		/**
		 * @param array<string, mixed>|\WP_Error $response
		 * @return string|\WP_Error
		 */
		private static function result( $response, int $status, string $file, string $refused ) {
			if ( is_wp_error( $response ) ) {
				$code = Http::TOO_LARGE === $response->get_error_code() ? Http::TOO_LARGE : 'download_failed';
				return new \WP_Error( $code, $response->get_error_message() );
			}
			if ( 200 !== $status ) {
				$detail = Answer::detail_of( (string) file_get_contents( $file, false, null, 0, 4 * KB_IN_BYTES ) );
				$reason = '' === $detail ? 'HTTP status ' . $status : str_replace( '{reason}', $detail, $refused );
				return new \WP_Error( 'download_failed', esc_html( $reason ) );
			}
			return $file;
		}

		/** Where a redirect leads. What came by https stays on https. */
		public static function next( string $from, string $location ): string {
			$to     = \WP_Http::make_absolute_url( $location, $from );
			$scheme = strtolower( (string) wp_parse_url( $to, PHP_URL_SCHEME ) );
			$stays  = 'http' === strtolower( (string) wp_parse_url( $from, PHP_URL_SCHEME ) ) && Config::is_safe( $to );
			return 'http' === $scheme && ! $stays ? 'https' . substr( $to, 4 ) : $to;
		}
	}

	/**
	 * The channel that releases come from: what a person chose here, unless a constant or a filter names one. A network has one channel, as
	 * it has one copy of the plugin.
	 */
	final class Channel {

		private const STABLE = 'stable';
		/** From calm to risky. */
		private const NAMES = [ self::STABLE, 'rc', 'beta', 'alpha' ];

		private Config $config;

		public function __construct( Config $config ) {
			$this->config = $config;
		}

		public static function name_for( string $slug ): string {
			return Config::name_for( $slug ) . '_channel';
		}

		/** @return string[] Among which channels a person may choose; empty where there is nothing to choose. */
		public function choices(): array {
			$named = array_intersect( self::NAMES, (array) $this->config->settings['channels'] );
			return array_diff( $named, [ self::STABLE ] ) ? array_values( array_unique( array_merge( [ self::STABLE ], $named ) ) ) : [];
		}

		/** The channel that the site's code names; null where it names none. */
		public function fixed(): ?string {
			$constant = (string) $this->config->settings['channel_constant'];
			$channel  = '' !== $constant && defined( $constant ) ? constant( $constant ) : null;
			$channel  = apply_filters( $this->config->name() . '_channel', $channel );
			return in_array( $channel, self::NAMES, true ) ? $channel : null;
		}

		public function name(): string {
			$chosen = get_site_option( self::name_for( $this->config->slug ) );
			return $this->fixed() ?? ( in_array( $chosen, $this->choices(), true ) ? $chosen : self::STABLE );
		}

		/** As a question has it: empty for stable releases, which everybody gets who does not ask. */
		public function wish(): string {
			return self::STABLE === $this->name() ? '' : $this->name();
		}

		/** Whether the channel is another one now. */
		public function choose( string $name ): bool {
			return in_array( $name, $this->choices(), true ) && update_site_option( self::name_for( $this->config->slug ), $name );
		}

		/** Whether a version is that of a pre-release, as the server reads it. */
		public static function is_pre_release( string $version ): bool {
			return (bool) preg_match( '/\d[.-]?(alpha|a|beta|b|rc|RC)([.-]?\d+)?$/D', $version );
		}
	}

	/**
	 * An update manifest, read field by field.
	 *
	 * SECURITY: a manifest is not signed, and WordPress prints much of it unescaped. Each field has a type, a grammar and
	 * a length; what does not fit is dropped, or refuses the whole where an update could not be judged without it.
	 */
	final class Manifest {

		public const VERSION      = '/^\d[0-9A-Za-z.+_~-]{0,63}$/D';
		public const REQUIREMENT  = '/^(\d{1,4}(\.\d{1,4}){0,3}(-[0-9A-Za-z.-]{1,16})?)?$/D';
		private const TIME        = '/^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?( ?(Z|GMT|UTC))?)?$/D';
		private const MOMENT      = '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/D';
		// No quote, bracket, blank or backslash: pages print it in attributes, style sheets and texts.
		private const URL         = '~^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9/._%+=&?#@!$,;:\~*-]*)?$~iD';

		private const SECTIONS = [ 'description', 'installation', 'faq', 'screenshots', 'changelog', 'other_notes' ];
		private const IMAGES   = [
			'icons'   => [ '1x', '2x', 'svg', 'default' ],
			'banners' => [ 'low', 'high', '1x', '2x' ],
		];

		// As WordPress reads `Requires Plugins`.
		private const SLUG       = '/^[a-z0-9]+(-[a-z0-9]+)*$/D';
		private const MOST_SLUGS = 64;

		private const LONGEST_URL     = 2048;
		private const LONGEST_TEXT    = 4096;
		private const LONGEST_SECTION = 524288;

		/**
		 * @param mixed $said           What the server said.
		 * @param bool  $pins_releases Whether a package is never kept but by its name.
		 * @return array<string, mixed>|null Every field, empty where it was not there or did not fit; an empty array where
		 *                                   there is no update; null where it is no manifest of this plugin.
		 */
		public static function read( $said, string $slug, bool $pins_releases ): ?array {
			if ( is_array( $said ) && ! isset( $said['version'] ) ) {
				return [];
			}
			if ( '' !== self::flaw( $said, $slug ) ) {
				return null;
			}
			$package = self::package( $said, $slug, $pins_releases );
			return [
				'version'        => $said['version'],
				'requires'       => $said['requires'] ?? '',
				'requires_php'   => $said['requires_php'] ?? '',
				'tested'         => (string) self::matching( self::REQUIREMENT, $said['tested'] ?? '' ),
				'last_updated'   => (string) self::matching( self::TIME, $said['last_updated'] ?? '' ),
				'name'           => self::text( $said['name'] ?? '' ),
				'author'         => self::text( $said['author'] ?? '' ),
				'upgrade_notice' => self::text( $said['upgrade_notice'] ?? '' ),
				'url'            => self::url( $said['url'] ?? '' ),
				'homepage'       => self::url( $said['homepage'] ?? '' ),
				'package'        => $package,
				'security'       => true === ( $said['security'] ?? false ),
				'requires_plugins' => self::slugs( $said['requires_plugins'] ?? [] ),
				'held'           => true === ( $said['held'] ?? false ),
				'held_until'     => (string) self::matching( self::MOMENT, $said['held_until'] ?? '' ),
				// Whether an expired license gets it, and when it was said; of what is kept only.
				'for_expired'    => true === ( $said['for_expired'] ?? false ),
				'asked'          => is_int( $said['asked'] ?? 0 ) ? $said['asked'] ?? 0 : 0,
				'sections'       => self::sections( $said['sections'] ?? [] ),
				'icons'          => self::images( 'icons', $said['icons'] ?? [] ),
				'banners'        => self::images( 'banners', $said['banners'] ?? [] ),
			];
		}

		/**
		 * What WordPress keeps as the address of the package: nobody else's link, and for a package of the server's own its name,
		 * because a link is good for this site only, and for a few days.
		 *
		 * @param array<string, mixed> $said
		 */
		private static function package( array $said, string $slug, bool $pins_releases ): string {
			$name = Config::name_of_package( $slug, $said['version'] );
			$link = self::link( $said );
			// What is kept has the name already.
			$is_named = ( $said['package'] ?? '' ) === $name || ( $pins_releases && '' !== $link );
			return $is_named || self::is_hosted( $link, $slug, $said['version'] ) ? $name : $link;
		}

		/**
		 * The address of the package in this answer; empty where it has none, or an unsafe one.
		 *
		 * @param mixed $said
		 */
		public static function link( $said ): string {
			$link = self::url( is_array( $said ) ? $said['package'] ?? '' : '' );
			return Config::is_safe( $link ) ? $link : '';
		}

		/** Whether a link leads to a package that the server hosts. */
		private static function is_hosted( string $link, string $slug, string $version ): bool {
			$slug    = preg_quote( $slug, '~' );
			$version = preg_quote( $version, '~' );
			return (bool) preg_match( "~/api/v1/downloads/$slug/$version/[A-Za-z0-9_-]{60}/$slug-$version\.zip$~D", $link );
		}

		/**
		 * Why an update cannot be judged by what the server said; empty where it can.
		 *
		 * @param mixed $said
		 */
		public static function flaw( $said, string $slug ): string {
			if ( ! is_array( $said ) ) {
				return 'it is not JSON';
			}
			$grammars = [ 'version' => self::VERSION, 'requires' => self::REQUIREMENT, 'requires_php' => self::REQUIREMENT ];
			foreach ( $grammars as $field => $grammar ) {
				if ( null === self::matching( $grammar, $said[ $field ] ?? '' ) ) {
					return "its $field is no version";
				}
			}
			return ( $said['slug'] ?? $slug ) === $slug ? '' : 'it is about another plugin';
		}

		/** @param mixed $value */
		private static function matching( string $grammar, $value ): ?string {
			return is_string( $value ) && preg_match( $grammar, $value ) ? $value : null;
		}

		/**
		 * One line of plain text.
		 *
		 * @param mixed $value
		 */
		private static function text( $value ): string {
			if ( ! is_string( $value ) || strlen( $value ) > self::LONGEST_TEXT ) {
				return '';
			}
			$plain = wp_strip_all_tags( wp_check_invalid_utf8( $value ) );
			// Tags that only come into being by taking others away, and half of one.
			return trim( (string) preg_replace( '/[<>\x00-\x20\x7F]+/', ' ', $plain ) );
		}

		/** @param mixed $value */
		private static function url( $value ): string {
			return is_string( $value ) && strlen( $value ) <= self::LONGEST_URL && preg_match( self::URL, $value ) ? $value : '';
		}

		/**
		 * @param mixed $value
		 * @return array<string, string> HTML that still has to be made safe, which costs too much for pages that do not show it.
		 */
		private static function sections( $value ): array {
			$fits     = function ( $html ): bool {
				return is_string( $html ) && strlen( $html ) <= self::LONGEST_SECTION;
			};
			$sections = is_array( $value ) ? array_intersect_key( $value, array_flip( self::SECTIONS ) ) : [];
			return array_map( 'wp_check_invalid_utf8', array_filter( $sections, $fits ) );
		}

		/**
		 * HTML of a section, made safe for a page.
		 *
		 * SECURITY: WordPress reads comments in it as blocks, which takes hundreds of times their memory. Nobody sees them, so they
		 * go first; what becomes one only then is a text.
		 */
		public static function safe_html( string $html ): string {
			$html = (string) preg_replace( '/<!--.*?(-->|$)/Ds', '', $html );
			return wp_kses_post( str_replace( '<!--', '&lt;!--', $html ) );
		}

		/**
		 * @param mixed $value
		 * @return string[]
		 */
		private static function slugs( $value ): array {
			$texts = array_filter( array_slice( (array) $value, 0, self::MOST_SLUGS ), 'is_string' );
			return array_values( (array) preg_grep( self::SLUG, $texts ) );
		}

		/**
		 * @param mixed $value
		 * @return array<string, string>
		 */
		private static function images( string $kind, $value ): array {
			$images = is_array( $value ) ? array_intersect_key( $value, array_flip( self::IMAGES[ $kind ] ) ) : [];
			$images = array_map( [ __CLASS__, 'url' ], $images );
			return array_filter( $images, [ Config::class, 'is_safe' ] );
		}
	}

	/** What came back from the server. */
	final class Answer {
		/** The HTTP status, 0 where nothing came back. */
		public int $status = 0;
		public string $body = '';
		/** Why this is no answer; empty where it is one. */
		public string $trouble = '';
		/** Seconds the server wants to be left alone. */
		public int $retry_after = 0;
		/** @var array<string, mixed>|null To a validation: the verified statement. */
		public ?array $statement = null;
		/** @var array<string, mixed>|null To a question for updates: the manifest as Manifest reads it, empty where there is no update. */
		public ?array $manifest = null;
		/** Where the package is, for this answer only: it is not kept. */
		public string $link = '';
		/** @var mixed What is said to prove the release, as it came. */
		public $release = null;
		/** What was proven by it. */
		public ?Release_Statement $statement_of_release = null;
		/** @var array<int, array<string, mixed>> Manifests that name versions which a site may go back to. */
		public array $earlier = [];
		/** @var array<string, mixed>|null Where the license has expired: a manifest that names the latest version. */
		public ?array $latest = null;
		/** Whether the license has expired, and what names the latest version cannot be read. */
		public bool $unreadable = false;

		/** The `code` of a problem document; empty where it is none. */
		public function code(): string {
			$problem = $this->status >= 400 ? json_decode( $this->body, true, 4 ) : null;
			return is_array( $problem ) && is_string( $problem['code'] ?? null ) ? $problem['code'] : '';
		}

		/** Why the server refused, in its own words; empty where it did not, or said nothing. */
		public function detail(): string {
			return $this->status >= 400 ? self::detail_of( $this->body ) : '';
		}

		/** The `detail` of a problem document (RFC 9457 section 3.1.4) as one line of plain text. */
		public static function detail_of( string $body ): string {
			$problem = json_decode( $body, true, 4 );
			$detail  = is_array( $problem ) && is_string( $problem['detail'] ?? null ) ? $problem['detail'] : '';
			return sanitize_text_field( substr( $detail, 0, 500 ) );
		}
	}

	/** A statement that is not to be believed; the message says why. */
	final class Not_Genuine extends \Exception {
	}

	/** Why a release is not installed: the message is a Texts name, and the values stand in its sentence. */
	final class Refused extends \Exception {

		/** @var array<string, string> */
		public array $values;

		/** @param array<string, string> $values */
		public function __construct( string $text, array $values = [] ) {
			parent::__construct( $text );
			$this->values = $values;
		}
	}

	/**
	 * The proof that a release is the vendor's: a statement, and signatures by people whose keys are on no server.
	 */
	final class Release {

		/** Whatever is refused for another reason was downloaded. */
		public const WHY_NOT_OFFERED = [ 'release_unsigned', 'release_signatures', 'release_unreadable', 'release_other', 'release_older' ];

		private const MOST_SIGNATURES   = 16;
		private const LONGEST_STATEMENT = 65536;

		/**
		 * Reads nothing of a statement before enough people have signed it.
		 *
		 * @param mixed $said The member `release` of a manifest.
		 * @throws Refused Where nothing proves that this is the plugin's release of that version, or it is not newer.
		 */
		public static function prove( $said, Config $config, string $version, string $installed ): Release_Statement {
			if ( ! is_array( $said ) || empty( $said['signatures'] ) ) {
				throw new Refused( 'release_unsigned' );
			}
			$encoded   = $said['statement'] ?? '';
			$bytes     = is_string( $encoded ) && strlen( $encoded ) <= 2 * self::LONGEST_STATEMENT ? Ssh_Reader::decode( $encoded ) : '';
			$good      = '' === $bytes ? 0 : self::count_signers( $said['signatures'], $bytes, $config );
			if ( $good < $config->release_threshold ) {
				throw new Refused( 'release_signatures', [ '{good}' => (string) $good, '{needed}' => (string) $config->release_threshold ] );
			}
			$statement = Release_Statement::read( $bytes );
			if ( $statement->slug !== $config->slug || $statement->version !== $version ) {
				throw new Refused( 'release_other', [ '{found}' => $statement->slug . ' ' . $statement->version ] );
			}
			if ( ! version_compare( $statement->version, $installed, '>' ) ) {
				throw new Refused( 'release_older' );
			}
			return $statement;
		}

		/**
		 * How many of the pinned keys have signed; no more are looked for than are needed.
		 *
		 * @param mixed $signatures
		 */
		private static function count_signers( $signatures, string $bytes, Config $config ): int {
			if ( ! is_array( $signatures ) || count( $signatures ) > self::MOST_SIGNATURES ) {
				return 0;
			}
			$signers = [];
			foreach ( $signatures as $signature ) {
				// SECURITY: one key counts once, however often it has signed, whether as a plain key or as a hardware key.
				$signer = is_string( $signature ) ? Release_Signature::signer( $signature, $bytes, $config->release_keys() ) : '';
				'' !== $signer && $signers[ bin2hex( $signer ) ] = true;
				if ( count( $signers ) >= $config->release_threshold ) {
					break;
				}
			}
			return count( $signers );
		}
	}

	/**
	 * What the vendor's people say of a release, in the one way that RFC 8785 writes it.
	 */
	final class Release_Statement {

		private const TYPE   = 'countersign-release-1';
		private const SLUG   = '/^[a-z0-9][a-z0-9-]{0,63}$/D';
		private const SHA256 = '/^[0-9a-f]{64}$/D';
		private const COMMIT = '/^[0-9a-f]{40}([0-9a-f]{24})?$/D';
		private const TEXT   = '/^[^\x00-\x1F\x7F]{1,255}$/D';
		private const TIME   = '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/D';
		/** Beyond this, numbers of JSON are not exact (RFC 7493 section 2.2). */
		private const LARGEST_NUMBER = 9007199254740991;
		private const LARGEST_FORM   = 4294967295;
		private const MOST_KEYS      = 16;

		private const MEMBERS = [ 'commit', 'contents', 'form', 'number', 'package', 'pins', 'previous', 'published', 'requires', 'requires_php', 'slug', 'tag', 'type', 'version' ];

		public string $slug;
		public string $version;
		public string $requires;
		public string $requires_php;
		/** The package as it lies on the server: bytes, and their SHA-256 in hex. */
		public int $size;
		public string $sha256;
		/** SHA-256 over the lines of `sha256sum` for all files but the mark (docs/signing.md). */
		public string $contents;
		/** @var int[] Where a copy has its UUID, and the two CRC-32 of its mark; none where copies are not marked. */
		public array $mark;

		/** @throws Refused Where it is not written as it must be, or a member does not fit. */
		public static function read( string $bytes ): self {
			$said = json_decode( $bytes, false, 8 );
			// SECURITY: PHP reads a member that is given twice as one. Encoded again, the text differs.
			if ( ! $said instanceof \stdClass || self::written( $said ) !== $bytes || ! self::is_whole( $said ) ) {
				throw new Refused( 'release_unreadable' );
			}
			$mark      = $said->package->mark;
			$statement = new self();

			$statement->slug         = $said->slug;
			$statement->version      = $said->version;
			$statement->requires     = $said->requires;
			$statement->requires_php = $said->requires_php;
			$statement->size         = $said->package->size;
			$statement->sha256       = $said->package->sha256;
			$statement->contents     = $said->contents;
			$statement->mark         = null === $mark ? [] : array_merge( [ $mark->uuid ], $mark->crc );
			return $statement;
		}

		/**
		 * A value as RFC 8785 writes it: the members in order, no blanks, and nothing escaped that need not be. No member here is
		 * a fraction, so one gives what no JSON is.
		 *
		 * @param mixed $value
		 */
		private static function written( $value ): string {
			if ( is_array( $value ) ) {
				return '[' . implode( ',', array_map( [ __CLASS__, 'written' ], $value ) ) . ']';
			}
			if ( ! is_object( $value ) ) {
				return is_float( $value ) ? '' : (string) json_encode( $value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_LINE_TERMINATORS );
			}
			$members = get_object_vars( $value );
			ksort( $members, SORT_STRING );
			$written = [];
			foreach ( $members as $name => $member ) {
				$written[] = self::written( (string) $name ) . ':' . self::written( $member );
			}
			return '{' . implode( ',', $written ) . '}';
		}

		/** Whether each member is there and fits, and no other. What a statement says one day has another type. */
		private static function is_whole( \stdClass $said ): bool {
			return self::has( $said, self::MEMBERS )
				&& self::TYPE === $said->type
				&& self::matches( self::SLUG, $said->slug )
				&& self::matches( Manifest::VERSION, $said->version )
				&& self::is_number( $said->number, self::LARGEST_NUMBER )
				&& ( 1 === $said->number ? null === $said->previous : self::matches( self::SHA256, $said->previous ) )
				&& self::matches( self::TEXT, $said->tag )
				&& self::matches( self::COMMIT, $said->commit )
				&& self::matches( self::TIME, $said->published )
				&& self::matches( Manifest::REQUIREMENT, $said->requires )
				&& self::matches( Manifest::REQUIREMENT, $said->requires_php )
				&& self::has( $said->pins, [ 'keys', 'threshold' ] )
				&& self::is_number( $said->pins->threshold, self::count_keys( $said->pins->keys ) )
				&& self::is_number( $said->form, self::LARGEST_FORM )
				&& self::matches( self::SHA256, $said->contents )
				&& self::has( $said->package, [ 'mark', 'sha256', 'size' ] )
				&& self::matches( self::SHA256, $said->package->sha256 )
				&& self::is_number( $said->package->size, Download::LARGEST )
				&& ( null === $said->package->mark || self::is_mark( $said->package->mark, $said->package->size ) );
		}

		/**
		 * Whether this has these members, in their order, and no other.
		 *
		 * @param mixed    $value
		 * @param string[] $members
		 */
		private static function has( $value, array $members ): bool {
			return $value instanceof \stdClass && array_keys( get_object_vars( $value ) ) === $members;
		}

		/**
		 * How many different keys these lines have; none where they are not without comments, sorted, each once.
		 *
		 * @param mixed $lines
		 */
		private static function count_keys( $lines ): int {
			if ( ! is_array( $lines ) || count( $lines ) > self::MOST_KEYS ) {
				return 0;
			}
			$before = '';
			$keys   = [];
			foreach ( $lines as $line ) {
				$key = Release_Key::read( $line );
				if ( null === $key || $line !== $key->type . ' ' . base64_encode( $key->blob ) || strcmp( $line, $before ) <= 0 ) {
					return 0;
				}
				$before = $line;
				// A key in a file and in hardware is one.
				$keys[ bin2hex( $key->bytes ) ] = true;
			}
			return count( $keys );
		}

		/**
		 * Whether these places are in the package, and no two of them share a byte.
		 *
		 * @param mixed $mark
		 */
		private static function is_mark( $mark, int $size ): bool {
			if ( ! self::has( $mark, [ 'crc', 'uuid' ] ) || ! is_array( $mark->crc ) || array_keys( $mark->crc ) !== [ 0, 1 ] ) {
				return false;
			}
			$free = 0;
			foreach ( [ [ $mark->crc[0], 4 ], [ $mark->uuid, 36 ], [ $mark->crc[1], 4 ] ] as list( $at, $length ) ) {
				// The text of the mark comes behind its header, and the archive's directory behind both.
				if ( ! is_int( $at ) || $at < $free || $at > $size - $length ) {
					return false;
				}
				$free = $at + $length;
			}
			return true;
		}

		/** @param mixed $value */
		private static function matches( string $grammar, $value ): bool {
			return is_string( $value ) && preg_match( $grammar, $value );
		}

		/** @param mixed $value */
		private static function is_number( $value, float $most ): bool {
			return is_int( $value ) && $value >= 1 && $value <= $most;
		}
	}

	/**
	 * One signature by `ssh-keygen -Y sign -n countersign-release` (OpenSSH, PROTOCOL.sshsig).
	 */
	final class Release_Signature {

		private const PURPOSE = 'countersign-release';
		private const BEGIN   = "-----BEGIN SSH SIGNATURE-----\n";
		private const END     = "-----END SSH SIGNATURE-----\n";
		private const WIDTH   = 70;
		private const LONGEST = 2048;
		/** Somebody touched the key: a bit of the flags of a hardware key. */
		private const TOUCHED = 1;

		/**
		 * Who signed a message; empty where nobody did whose key is pinned.
		 *
		 * @param Release_Key[] $keys
		 * @return string The 32 bytes of the key.
		 */
		public static function signer( string $armored, string $message, array $keys ): string {
			try {
				return self::verify( $armored, $message, $keys );
			} catch ( \Throwable $reason ) {
				// SECURITY: where sodium says false, the one that WordPress brings for a PHP without it throws. Both is a no.
				return '';
			}
		}

		/** @param Release_Key[] $keys */
		private static function verify( string $armored, string $message, array $keys ): string {
			$reader     = new Ssh_Reader( self::unarmored( $armored ) );
			$head       = $reader->take( 10 );
			$public_key = $reader->text();
			$purpose    = $reader->text();
			$reserved   = $reader->text();
			$hash       = $reader->text();
			$signature  = new Ssh_Reader( $reader->text() );
			$reader->end();

			$key = self::pinned( $public_key, $keys );
			if ( null === $key || 'SSHSIG' . pack( 'N', 1 ) !== $head || self::PURPOSE !== $purpose || '' !== $reserved
				|| ! in_array( $hash, [ 'sha256', 'sha512' ], true ) || $signature->text() !== $key->type ) {
				return '';
			}
			$ed25519 = $signature->text();
			// SECURITY: the sodium that older WordPress brings ignores what follows the 64 bytes.
			if ( 64 !== strlen( $ed25519 ) ) {
				return '';
			}
			$signed = 'SSHSIG' . Ssh_Reader::write( $purpose ) . Ssh_Reader::write( $reserved )
				. Ssh_Reader::write( $hash ) . Ssh_Reader::write( hash( $hash, $message, true ) );
			if ( Release_Key::HARDWARE === $key->type ) {
				$flags   = $signature->take( 1 );
				$counter = $signature->take( 4 );
				// SECURITY: without a touch, anybody on the machine that the key is plugged into can sign.
				if ( ! ( ord( $flags ) & self::TOUCHED ) ) {
					return '';
				}
				$signed = hash( 'sha256', $key->application, true ) . $flags . $counter . hash( 'sha256', $signed, true );
			}
			$signature->end();
			return true === sodium_crypto_sign_verify_detached( $ed25519, $signed, $key->bytes ) ? $key->bytes : '';
		}

		/** The bytes in an armor, if that is the one way to write them: as ssh-keygen does. */
		private static function unarmored( string $armored ): string {
			$base64 = strlen( $armored ) <= self::LONGEST ? str_replace( [ self::BEGIN, "\n", rtrim( self::END ) ], '', $armored ) : '';
			$bytes  = (string) base64_decode( $base64, true );
			return self::BEGIN . chunk_split( base64_encode( $bytes ), self::WIDTH, "\n" ) . self::END === $armored ? $bytes : '';
		}

		/** @param Release_Key[] $keys */
		private static function pinned( string $blob, array $keys ): ?Release_Key {
			foreach ( $keys as $key ) {
				if ( $key->blob === $blob ) {
					return $key;
				}
			}
			return null;
		}
	}

	/**
	 * A public key of somebody who signs releases: Ed25519, in a file or in hardware (OpenSSH, PROTOCOL.u2f).
	 */
	final class Release_Key {

		private const PLAIN   = 'ssh-ed25519';
		public const HARDWARE = 'sk-ssh-ed25519@openssh.com';
		private const LINE    = '~^([a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+=*)(?:[ \t][^\r\n]*)?$~D';
		private const LONGEST = 4096;

		/** What no key can have as its 32 bytes in hex, the sign taken away: the points of small order (RFC 8032 section 5.1). */
		private const OF_SMALL_ORDER = [
			'0000000000000000000000000000000000000000000000000000000000000000',
			'0100000000000000000000000000000000000000000000000000000000000000',
			'26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
			'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
			'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
		];

		/** The name of its type, in a signature and at the start of the key's text. */
		public string $type;
		/** The key as SSH sends it. */
		public string $blob;
		/** The Ed25519 key in it: 32 bytes. */
		public string $bytes;
		/** Of a key in hardware, what it signs for: `ssh:`. */
		public string $application = '';

		/**
		 * Reads a line of an authorized_keys file or a .pub file.
		 *
		 * @param mixed $line
		 * @return self|null Null where it is no such key.
		 */
		public static function read( $line ): ?self {
			if ( ! is_string( $line ) || strlen( $line ) > self::LONGEST || ! preg_match( self::LINE, trim( $line ), $found ) ) {
				return null;
			}
			try {
				$key       = new self();
				$key->blob = Ssh_Reader::decode( $found[2] );
				$reader    = new Ssh_Reader( $key->blob );
				$key->type = $reader->text();
				$key->bytes = $reader->text();
				if ( self::HARDWARE === $key->type ) {
					$key->application = $reader->text();
				}
				$reader->end();
			} catch ( \UnexpectedValueException $reason ) {
				return null;
			}
			$is_known = in_array( $key->type, [ self::PLAIN, self::HARDWARE ], true ) && $key->type === $found[1];
			return $is_known && self::is_ed25519( $key->bytes ) ? $key : null;
		}

		/** Whether these bytes can be a key: WordPress' own sodium takes some that the other does not. */
		private static function is_ed25519( string $bytes ): bool {
			if ( 32 !== strlen( $bytes ) ) {
				return false;
			}
			$bytes[31] = chr( ord( $bytes[31] ) & 0x7F );
			// 2^255 - 19, as bytes from the highest: the order of texts is that of the numbers.
			$prime = str_pad( "\x7F", 31, "\xFF" ) . "\xED";
			return strcmp( strrev( $bytes ), $prime ) < 0 && ! in_array( bin2hex( $bytes ), self::OF_SMALL_ORDER, true );
		}
	}

	/**
	 * Bytes as SSH writes them (RFC 4251 section 5): each text with its length in front.
	 */
	final class Ssh_Reader {

		private string $bytes;
		private int $at = 0;

		public function __construct( string $bytes ) {
			$this->bytes = $bytes;
		}

		/** Base64 in the one way to write it; empty where it is not written so. */
		public static function decode( string $base64 ): string {
			$bytes = (string) base64_decode( $base64, true );
			return base64_encode( $bytes ) === $base64 ? $bytes : '';
		}

		public static function write( string $text ): string {
			return pack( 'N', strlen( $text ) ) . $text;
		}

		/** @throws \UnexpectedValueException Where there are not so many. */
		public function take( int $length ): string {
			// In a PHP of 32 bits a length may be negative.
			if ( $length < 0 || $length > strlen( $this->bytes ) - $this->at ) {
				throw new \UnexpectedValueException( 'cut short' );
			}
			$taken     = (string) substr( $this->bytes, $this->at, $length );
			$this->at += $length;
			return $taken;
		}

		/** @throws \UnexpectedValueException Where it is cut short. */
		public function text(): string {
			return $this->take( unpack( 'N', $this->take( 4 ) )[1] );
		}

		/** @throws \UnexpectedValueException Where something is left. */
		public function end(): void {
			if ( strlen( $this->bytes ) !== $this->at ) {
				throw new \UnexpectedValueException( 'something is left' );
			}
		}
	}

	/**
	 * A file on this site, and whether it is the package that was signed.
	 *
	 * Each copy of a package has a mark of its own: the file build-id.php, which is the last in the archive and not compressed.
	 * So a copy differs from the signed package in the UUID and in the file's CRC-32, which an archive has twice.
	 */
	final class Package {

		private const MARK   = "<?php\n// Who this copy was given to. Do not edit.\nreturn '%s';\n";
		private const NOBODY = '00000000-0000-0000-0000-000000000000';
		private const UUID   = '/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/D';

		/**
		 * Reads the file once, a piece at a time.
		 *
		 * @throws Refused Where it is another file than the signed one, apart from the mark.
		 */
		public static function check( string $path, Release_Statement $statement ): void {
			// A file that is not there is refused, and PHP's warning says no more.
			$file = @fopen( $path, 'rb' );
			if ( ! $file ) {
				throw new Refused( 'release_bytes' );
			}
			try {
				$size = (int) fstat( $file )['size'];
				if ( $size !== $statement->size ) {
					throw new Refused( 'release_size', [ '{size}' => (string) $size, '{signed}' => (string) $statement->size ] );
				}
				$unmarked = $statement->mark ? self::unmarked( $file, $statement->mark ) : [];
				if ( self::sha256( $file, $unmarked ) !== $statement->sha256 ) {
					throw new Refused( 'release_bytes' );
				}
			} finally {
				fclose( $file );
			}
		}

		/**
		 * Compares unpacked files with those that were signed: each of them, and no other.
		 *
		 * @param string $folder As WordPress' file system names it, which may reach it through FTP.
		 * @throws Refused Where a file is another one, is missing, or is one too many.
		 */
		public static function check_files( string $folder, Release_Statement $statement ): void {
			global $wp_filesystem;
			$top     = basename( $folder ) . '/';
			$digests = self::digests( $folder, $top );
			if ( $statement->mark ) {
				$mark = (string) $wp_filesystem->get_contents( $folder . 'build-id.php' );
				$uuid = (string) substr( $mark, (int) strpos( self::MARK, '%s' ), 36 );
				// SECURITY: it is no part of what was signed, and PHP may run it.
				if ( ! preg_match( self::UUID, $uuid ) || sprintf( self::MARK, $uuid ) !== $mark ) {
					throw new Refused( 'release_files' );
				}
				unset( $digests[ $top . 'build-id.php' ] );
			}
			ksort( $digests, SORT_STRING );
			$lines = hash_init( 'sha256' );
			foreach ( $digests as $name => $digest ) {
				hash_update( $lines, "$digest  $name\n" );
			}
			if ( hash_final( $lines ) !== $statement->contents ) {
				throw new Refused( 'release_files' );
			}
		}

		/**
		 * @param string $name The folder's name in the archive.
		 * @return array<string, string> The SHA-256 of all files in a folder and below, by their names in the archive; empty for
		 *                               what is no file, as a link, which no package has.
		 * @throws Refused Where a folder cannot be read.
		 */
		private static function digests( string $folder, string $name ): array {
			global $wp_filesystem;
			$entries = $wp_filesystem->dirlist( $folder );
			if ( ! is_array( $entries ) ) {
				throw new Refused( 'release_files' );
			}
			$is_direct = 'direct' === $wp_filesystem->method;
			$digests   = [];
			foreach ( $entries as $entry => $about ) {
				$path = $folder . $entry;
				if ( $is_direct && ( is_link( $path ) || ! ( is_file( $path ) || is_dir( $path ) ) ) ) {
					$digests[ $name . $entry ] = '';
				} elseif ( 'd' === $about['type'] ) {
					$digests += self::digests( $path . '/', $name . $entry . '/' );
				} else {
					$digests[ $name . $entry ] = $is_direct ? (string) hash_file( 'sha256', $path ) : hash( 'sha256', (string) $wp_filesystem->get_contents( $path ) );
				}
			}
			return $digests;
		}

		/**
		 * What the package has where this copy has its mark.
		 *
		 * @param resource $file
		 * @param int[]    $places
		 * @return array<int, string> Bytes by their places, in order.
		 * @throws Refused Where no right mark is there.
		 */
		private static function unmarked( $file, array $places ): array {
			list( $uuid_at, $local_at, $central_at ) = $places;
			$uuid = self::bytes( $file, $uuid_at, 36 );
			$crc  = self::crc( $uuid );
			// SECURITY: each free bit of a copy is one that nobody signed. A UUID has one way to be written, and the CRC-32 follows.
			if ( ! preg_match( self::UUID, $uuid ) || self::bytes( $file, $local_at, 4 ) !== $crc || self::bytes( $file, $central_at, 4 ) !== $crc ) {
				throw new Refused( 'release_mark' );
			}
			return [ $local_at => self::crc( self::NOBODY ), $uuid_at => self::NOBODY, $central_at => self::crc( self::NOBODY ) ];
		}

		/** The CRC-32 of a mark, as an archive has it. */
		private static function crc( string $uuid ): string {
			return pack( 'V', crc32( sprintf( self::MARK, $uuid ) ) );
		}

		/** @param resource $file */
		private static function bytes( $file, int $at, int $length ): string {
			return 0 === fseek( $file, $at ) ? (string) fread( $file, $length ) : '';
		}

		/**
		 * The SHA-256 of a file with other bytes in some places.
		 *
		 * @param resource           $file
		 * @param array<int, string> $others
		 */
		private static function sha256( $file, array $others ): string {
			$hash = hash_init( 'sha256' );
			rewind( $file );
			foreach ( $others as $at => $bytes ) {
				hash_update_stream( $hash, $file, $at - ftell( $file ) );
				hash_update( $hash, $bytes );
				fseek( $file, strlen( $bytes ), SEEK_CUR );
			}
			hash_update_stream( $hash, $file );
			return hash_final( $hash );
		}
	}

	/**
	 * The way of a proven package through WordPress: from its download into the folder that WordPress installs it from.
	 */
	final class Installation {

		private string $file = '';
		private ?Release_Statement $statement = null;
		/** Where the file was unpacked; empty before that. */
		private string $folder = '';

		/** It is over. WordPress deletes the file that it unpacks, and no other. */
		public function end( string $unpacked = '' ): void {
			if ( '' !== $this->file && $this->file !== $unpacked && is_file( $this->file ) ) {
				wp_delete_file( $this->file );
			}
			$this->file      = '';
			$this->statement = null;
			$this->folder    = '';
		}

		/**
		 * Takes in what was downloaded.
		 *
		 * @throws Refused Where it is not what the statement is about.
		 */
		public function begin( string $file, Release_Statement $statement ): void {
			Package::check( $file, $statement );
			$this->file      = $file;
			$this->statement = $statement;
			// Before 6.4, WordPress calls the folder as the file, and says to nobody what it unpacks where.
			$this->folder = is_wp_version_compatible( '6.4' ) ? '' : basename( basename( $file, '.tmp' ), '.zip' ) . '/';
		}

		public function is_under_way(): bool {
			return null !== $this->statement;
		}

		public function is_unpacked(): bool {
			return '' !== $this->folder;
		}

		public function file(): string {
			return $this->file;
		}

		/**
		 * Looks again, for between a check and a use a file can change.
		 *
		 * @throws Refused Where it did, or something else is unpacked in its place.
		 */
		public function unpack( string $file, string $folder ): void {
			if ( $file !== $this->file ) {
				throw new Refused( 'release_way' );
			}
			$this->check_again();
			$this->folder = trailingslashit( $folder );
		}

		/** @throws Refused Where the file has changed. */
		public function check_again(): void {
			try {
				Package::check( $this->file, $this->statement );
			} catch ( Refused $reason ) {
				throw new Refused( 'release_swapped' );
			}
		}

		/**
		 * Looks at what is to be installed, before it is moved into place.
		 *
		 * @param string $source Its folder.
		 * @param string $folder Where that was unpacked.
		 * @throws Refused Where it did not come from the file, or has other files than those that were signed.
		 */
		public function check_unpacked( string $source, string $folder ): void {
			$is_it = in_array( $this->folder, [ $folder, basename( $folder ) . '/' ], true );
			if ( ! $this->statement || ! $is_it || 0 !== strpos( $source, $folder ) ) {
				throw new Refused( 'release_way' );
			}
			Package::check_files( $source, $this->statement );
		}
	}

	/**
	 * Updates, offered through WordPress' own filters: the row, the details window, the switch for automatic updates.
	 *
	 * The header needs `Update URI:` with the host of base_url.
	 */
	final class Updates {

		/** How old an answer may be that lets an automatic update begin, in seconds: a vendor may have paused the release. */
		private const CURRENT = 10 * MINUTE_IN_SECONDS;

		private Config $config;
		private Extension $extension;
		private License $license;
		private Server $server;
		/** The version whose package is being installed. */
		private string $installing = '';
		private Installation $installation;
		/** The older release that a person goes back to, while it is installed. */
		private ?Answer $back = null;

		public function __construct( Config $config, License $license ) {
			$this->config       = $config;
			$this->extension    = $config->extension;
			$this->license      = $license;
			$this->server       = new Server( $config );
			$this->installation = new Installation();
		}

		public function hook(): void {
			add_filter( $this->config->look_hook(), [ $this, 'offer' ], 10, 3 );
			add_filter( 'auto_update_' . $this->extension->type, [ $this, 'hold' ], PHP_INT_MAX, 2 );
			if ( $this->extension->is_theme() ) {
				add_action( 'admin_post_' . $this->config->name() . '_details', [ $this, 'show_details' ] );
				add_filter( 'wp_prepare_themes_for_js', [ $this, 'explain_to_script' ] );
			} else {
				add_filter( 'plugins_api', [ $this, 'describe' ], 10, 3 );
			}
			// SECURITY: where release keys are pinned, what another plugin's filter gives is not the last word.
			$priority = $this->config->pins_releases ? PHP_INT_MAX : 10;
			add_filter( 'upgrader_pre_download', [ $this, 'download' ], $priority, 4 );
			add_filter( 'upgrader_source_selection', [ $this, 'select_source' ], $priority, 4 );
			if ( $this->config->pins_releases && is_wp_version_compatible( '6.4' ) ) {
				// First of all: another plugin's filter may unpack the file itself.
				add_filter( 'pre_unzip_file', [ $this, 'check_archive' ], PHP_INT_MIN, 3 );
			} elseif ( $this->config->pins_releases ) {
				add_filter( 'unzip_file_use_ziparchive', [ $this, 'check_unnamed_archive' ], PHP_INT_MAX );
			}
			add_action( "in_{$this->extension->type}_update_message-{$this->extension->id}", [ $this, 'explain' ] );
			foreach ( [ "load-{$this->extension->type}s.php", 'load-update-core.php' ] as $page ) {
				add_action( $page, [ $this, 'look_again' ], 1 );
			}
		}

		/**
		 * Lets WordPress look again where it knows nothing of this plugin: after an update without JavaScript it looks while
		 * the plugin is inactive and cannot answer.
		 */
		public function look_again(): void {
			$looked  = get_site_transient( $this->extension->updates() );
			$again   = $this->config->name() . '_again';
			$unknown = isset( $looked->last_checked )
				&& ! isset( $looked->response[ $this->extension->id ] )
				&& ! isset( $looked->no_update[ $this->extension->id ] );
			if ( $unknown && ! get_site_transient( $again ) ) {
				// Where WordPress.org does not answer, this plugin is not asked, and nothing is known afterwards, either.
				set_site_transient( $again, 1, 15 * MINUTE_IN_SECONDS );
				delete_site_transient( $this->extension->updates() );
			}
		}

		/** Takes releases from another channel from now on, and asks which; whether it is another one. */
		public function change_channel( string $name ): bool {
			if ( ! ( new Channel( $this->config ) )->choose( $name ) ) {
				return false;
			}
			delete_site_transient( $this->config->name() );
			delete_site_transient( $this->extension->updates() );
			$this->extension->is_theme() ? wp_update_themes() : wp_update_plugins();
			return true;
		}

		/** Says beside an update why it does not install, and where that can be changed, or when it installs by itself. */
		public function explain(): void {
			$memory   = $this->license->memory();
			$manifest = $this->known( $this->extension->header( 'Version' ) ) ?? [];
			if ( $manifest['held'] ?? false ) {
				$until = (int) strtotime( $manifest['held_until'] );
				$name  = $until > time() ? 'held_until' : 'held';
				echo ' ', esc_html( $this->config->texts->get( $name, [ '{until}' => Settings_Page::moment( $until ) ] ) );
			}
			$missing = $this->missing_plugins( $manifest );
			if ( $missing ) {
				$values = [ '{version}' => $manifest['version'], '{plugins}' => implode( ', ', $missing ) ];
				echo ' ', esc_html( $this->config->texts->get( 'needs_plugins', $values ) );
			}
			if ( $manifest && $this->is_fled( $manifest['version'] ) ) {
				echo ' ', esc_html( $this->config->texts->get( 'fled', [ '{fled}' => $this->fled() ] ) );
			}
			if ( 'expired' === $memory->condition() ) {
				$security = $manifest['security'] ?? false;
				echo ' ', $security ? '<strong>' . esc_html( $this->config->texts->get( 'security' ) ) . '</strong> ' : '';
				echo ( $manifest['for_expired'] ?? false ) ? esc_html( $this->config->texts->get( 'for_expired' ) ) . ' ' : '';
				echo esc_html( $this->expired( $memory ) );
				if ( '' !== $memory->renew_url( $this->config ) ) {
					echo wp_kses_post( Settings_Page::anchor( $memory->renew_url( $this->config ), $this->config->texts->get( 'renew' ) ) );
				}
			}
		}

		/**
		 * Says the same on a site's page of themes, which a script shows.
		 *
		 * @param array<string, array<string, mixed>> $themes
		 * @return array<string, array<string, mixed>>
		 */
		public function explain_to_script( array $themes ): array {
			if ( $themes[ $this->extension->id ]['hasUpdate'] ?? false ) {
				ob_start();
				$this->explain();
				$said = trim( (string) ob_get_clean() );
				$themes[ $this->extension->id ]['update'] .= '' === $said ? '' : "<p>$said</p>";
			}
			return $themes;
		}

		/**
		 * The version an expired license is missing, and whether that is about security; empty where that is none.
		 *
		 * @return array<string, mixed>
		 */
		public function missed(): array {
			$installed = $this->extension->header( 'Version' );
			$manifest  = 'expired' === $this->license->memory()->condition() ? $this->known( $installed ) ?? [] : [];
			return self::is_newer( $manifest, $installed ) ? $manifest : [];
		}

		private function expired( Memory $memory ): string {
			return $this->config->texts->get( 'expired', [ '{expires}' => Settings_Page::day( $memory ) ] );
		}

		/**
		 * Answers WordPress' question for updates; an entry with the installed version says that there is none, and lets
		 * the switch for automatic updates appear.
		 *
		 * WordPress keeps the answer and decides when to ask again: twice a day, once an hour on the page of plugins, once
		 * a minute on the page of updates.
		 *
		 * @param mixed                 $update
		 * @param array<string, string> $header
		 * @param string                $id     The main file of a plugin, the stylesheet of a theme.
		 * @return mixed
		 */
		public function offer( $update, array $header, string $id ) {
			if ( $id !== $this->extension->id ) {
				return $update;
			}
			delete_site_transient( $this->config->name() . '_again' );
			$installed = $header['Version'];
			$manifest  = $this->ask( $installed );
			if ( ! self::is_newer( $manifest, $installed ) || ! self::fits( $manifest ) ) {
				return $this->no_offer( $installed );
			}
			$memory = $this->license->memory();
			if ( 'expired' === $memory->condition() ) {
				$security                   = $manifest['security'] ? $this->config->texts->get( 'security' ) . ' ' : '';
				$manifest['upgrade_notice'] = $security . ( $manifest['for_expired'] ? $this->config->texts->get( 'for_expired' ) : $this->expired( $memory ) );
			}
			$offer = [
				'version'        => $manifest['version'],
				'url'            => $this->extension->is_theme() ? $this->details_url() : $manifest['url'],
				'package'        => $manifest['package'],
				'tested'         => self::tested( $manifest['tested'] ),
				'requires'       => $manifest['requires'],
				'requires_php'   => $manifest['requires_php'],
				'upgrade_notice' => $manifest['upgrade_notice'],
				'icons'          => $manifest['icons'],
				'banners'        => $manifest['banners'],
			] + $this->called();
			$offer = apply_filters( $this->config->name() . '_offer', $offer, $manifest );
			return is_array( $offer ) ? $offer : $this->no_offer( $installed );
		}

		/**
		 * Keeps WordPress from installing an update by itself while it is another site's turn. Nobody who presses a button waits.
		 *
		 * WordPress asks with null whether something decides in the owner's place: then nothing does, and the switch stays the owner's.
		 *
		 * @param mixed $update
		 * @param mixed $item
		 * @return mixed
		 */
		public function hold( $update, $item ) {
			return $update && is_object( $item ) && $this->extension->is_in( (array) $item ) && $this->is_held( $item ) ? false : $update;
		}

		/** Whether what WordPress is about to install has to wait. What the server does not offer any more is not installed, either. */
		private function is_held( object $item ): bool {
			$installed = $this->extension->header( 'Version' );
			if ( ! version_compare( (string) ( $item->new_version ?? '' ), $installed, '>' ) ) {
				return false;
			}
			$manifest = $this->known( $installed );
			if ( abs( time() - ( $manifest['asked'] ?? 0 ) ) >= self::CURRENT ) {
				$manifest = $this->ask( $installed );
			}
			return ! self::is_newer( (array) $manifest, $installed ) || $manifest['held'] || $this->is_fled( $item->new_version )
				|| $this->missing_plugins( $manifest );
		}

		/**
		 * What a release needs by the header `Requires Plugins`, and does not run here. WordPress asks for that before it activates a plugin, and
		 * not before it updates one.
		 *
		 * @param array<string, mixed> $manifest
		 * @return string[] Folders of plugins.
		 */
		private function missing_plugins( array $manifest ): array {
			$active = array_merge( (array) get_option( 'active_plugins', [] ), array_keys( (array) get_site_option( 'active_sitewide_plugins', [] ) ) );
			$needed = array_map(
				function ( string $slug ): string {
					return (string) apply_filters( 'wp_plugin_dependencies_slug', $slug );
				},
				$manifest['requires_plugins'] ?? []
			);
			return array_values( array_diff( $needed, array_map( 'dirname', $active ) ) );
		}

		public static function name_of_fled( string $slug ): string {
			return Config::name_for( $slug ) . '_fled';
		}

		/** The version that a person went back from; empty where nobody did. */
		private function fled(): string {
			$fled = get_site_option( self::name_of_fled( $this->config->slug ) );
			return is_string( $fled ) && preg_match( Manifest::VERSION, $fled ) ? $fled : '';
		}

		/** Whether a person went back from a version or from a newer one. Who left a pre-release wants stable releases older than it. */
		private function is_fled( string $version ): bool {
			$fled    = $this->fled();
			$is_left = Channel::is_pre_release( $fled ) && ! Channel::is_pre_release( $version );
			return '' !== $fled && ! $is_left && version_compare( $version, $fled, '<=' );
		}

		/** Why this site can go back to no other version; null where it can ask. */
		private function why_not_back(): ?\WP_Error {
			$memory = $this->license->memory();
			if ( $memory->is_active() && ! $this->license->is_elsewhere() ) {
				return null;
			}
			return $this->error( 'no_update', [ '{reason}' => Settings_Page::plain( $this->config, $memory ) ] );
		}

		private function no_way_back( Answer $answer ): \WP_Error {
			$reason = '' !== $answer->detail() ? $answer->detail() : $answer->trouble;
			return $this->error( 'back_refused', [ '{reason}' => $reason ] );
		}

		/** @return array<int, array<string, mixed>>|\WP_Error Manifests that name the versions to which this site may go back. */
		public function earlier() {
			$flaw = $this->why_not_back();
			if ( $flaw ) {
				return $flaw;
			}
			$answer = $this->server->earlier( $this->license->memory()->key, $this->extension->header( 'Version' ) );
			if ( '' !== $answer->trouble ) {
				return $this->no_way_back( $answer );
			}
			return $answer->earlier ? $answer->earlier : $this->error( 'back_none' );
		}

		/**
		 * Installs an older version in the place of this one. After that, automatic updates wait for one that is newer than this.
		 *
		 * SECURITY: it comes the way of every update, with the same checks. WordPress' own way to overwrite a plugin has none of them.
		 *
		 * @return \WP_Error|null Why it is not installed; null where it is.
		 */
		public function go_back( string $version ): ?\WP_Error {
			$installed = $this->extension->header( 'Version' );
			$flaw      = $this->why_not_back();
			if ( $flaw ) {
				return $flaw;
			}
			$answer = $this->server->earlier_release( $this->license->memory()->key, $installed, $version );
			if ( '' !== $answer->trouble ) {
				return $this->no_way_back( $answer );
			}
			$is_it = $answer->manifest && $answer->manifest['version'] === $version && version_compare( $version, $installed, '<' );
			if ( ! $is_it || '' === $answer->link ) {
				return $this->error( 'download_refused' );
			}
			try {
				// Exactly this version has to be signed, and is older than what is installed.
				$this->prove( $answer, '' );
			} catch ( Refused $reason ) {
				return $this->refuse( $reason, $version );
			}
			if ( ! self::fits( $answer->manifest ) ) {
				return $this->error( 'back_needs_wordpress', [ '{version}' => $version, '{requires}' => $answer->manifest['requires'] ] );
			}
			if ( ! is_php_version_compatible( $answer->manifest['requires_php'] ) ) {
				return $this->error( 'needs_php', [ '{requires}' => $answer->manifest['requires_php'] ] );
			}
			$fled = $this->fled();
			if ( '' === $fled || version_compare( $installed, $fled, '>' ) ) {
				update_site_option( self::name_of_fled( $this->config->slug ), $installed );
			}
			$flaw = $this->install_back( $answer );
			$flaw && update_site_option( self::name_of_fled( $this->config->slug ), $fled );
			return $flaw;
		}

		private function install_back( Answer $answer ): ?\WP_Error {
			require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php';
			$this->back = $answer;
			$looked = 'site_transient_' . $this->extension->updates();
			add_filter( $looked, [ $this, 'offer_back' ], PHP_INT_MAX );
			$skin     = new \WP_Ajax_Upgrader_Skin();
			$upgrader = $this->extension->is_theme() ? new \Theme_Upgrader( $skin ) : new \Plugin_Upgrader( $skin );
			// A plugin stays active.
			$results = $upgrader->bulk_upgrade( [ $this->extension->id ] );
			remove_filter( $looked, [ $this, 'offer_back' ], PHP_INT_MAX );
			$this->back = null;
			$errors     = $skin->get_errors();
			if ( $errors->has_errors() ) {
				return $errors;
			}
			$is_done = is_array( $results ) && is_array( $results[ $this->extension->id ] ?? null );
			return $is_done ? null : $this->error( 'back_failed', [ '{version}' => $answer->manifest['version'] ] );
		}

		/**
		 * Shows WordPress the older version as an update, once: what it reads later, it may write down.
		 *
		 * @param mixed $looked
		 * @return mixed
		 */
		public function offer_back( $looked ) {
			remove_filter( (string) current_filter(), [ $this, 'offer_back' ], PHP_INT_MAX );
			if ( ! $this->back ) {
				return $looked;
			}
			$manifest         = $this->back->manifest;
			$looked           = is_object( $looked ) ? clone $looked : new \stdClass();
			$offer            = $this->called() + [
				'new_version'  => $manifest['version'],
				'url'          => '',
				'package'      => $manifest['package'],
				'requires'     => $manifest['requires'],
				'requires_php' => $manifest['requires_php'],
			];
			$looked->response = [ $this->extension->id => $this->extension->is_theme() ? $offer : (object) $offer ];
			return $looked;
		}

		/** @return array<string, string> What an update is about: WordPress finds it by both names. */
		private function called(): array {
			return [ 'slug' => $this->extension->folder, $this->extension->type => $this->extension->id ];
		}

		/** @return array<string, string> */
		private function no_offer( string $installed ): array {
			return $this->called() + [ 'version' => $installed, 'package' => '' ] + ( $this->extension->is_theme() ? [ 'url' => $this->details_url() ] : [] );
		}

		/**
		 * Fills the details window.
		 *
		 * @param mixed  $result
		 * @param string $action
		 * @param object $arguments
		 * @return mixed
		 */
		public function describe( $result, $action, $arguments ) {
			if ( 'plugin_information' !== $action || ! $this->is_called( $arguments->slug ?? '' ) ) {
				return $result;
			}
			$manifest = $this->newest();
			return (object) [
				'name'          => esc_html( $this->extension->name() ),
				'slug'          => $this->extension->folder,
				'version'       => $manifest['version'] ?? $this->extension->header( 'Version' ),
				'author'        => esc_html( ( $manifest['author'] ?? '' ) ?: $this->extension->header( 'Author' ) ),
				'homepage'      => $manifest['homepage'] ?? '',
				'requires'      => $manifest['requires'] ?? '',
				'requires_php'  => $manifest['requires_php'] ?? '',
				'tested'        => self::tested( $manifest['tested'] ?? '' ),
				'last_updated'  => $manifest['last_updated'] ?? '',
				'download_link' => $manifest['package'] ?? '',
				'sections'      => $this->sections( $manifest ),
				'banners'       => $manifest['banners'] ?? [],
				// WordPress 6.5 and newer show which of them are missing.
				'requires_plugins' => $manifest['requires_plugins'] ?? [],
				'external'      => true,
			];
		}

		/** @return array<string, mixed> The manifest of the update, or else of the latest release; empty where neither is known. */
		private function newest(): array {
			$update = $this->known( $this->extension->header( 'Version' ) );
			return $update ? $update : ( $this->known( '' ) ?? $this->ask( '' ) );
		}

		/**
		 * @param array<string, mixed> $manifest
		 * @return array<string, string> Harmless HTML by its name.
		 */
		private function sections( array $manifest ): array {
			$description = '<p>' . esc_html( $this->extension->header( 'Description' ) ) . '</p>';
			return array_map( [ Manifest::class, 'safe_html' ], $manifest['sections'] ?? [] ) + [ 'description' => $description ];
		}

		/** Where the window opens that WordPress shows for a theme: the vendor's own page may forbid that it is shown in one. */
		private function details_url(): string {
			$query = [ 'action' => $this->config->name() . '_details' ];
			return add_query_arg( $query, get_admin_url( get_main_site_id(), 'admin-post.php' ) );
		}

		/** Shows what a theme's release brings. */
		public function show_details(): void {
			if ( ! current_user_can( 'switch_themes' ) ) {
				wp_die( esc_html( $this->config->texts->get( 'forbidden' ) ), '', [ 'response' => 403 ] );
			}
			$manifest = $this->newest();
			$version  = (string) ( $manifest['version'] ?? $this->extension->header( 'Version' ) );
			$titles   = [
				// As WordPress calls and orders them in the window of a plugin.
				'description'  => _x( 'Description', 'Plugin installer section title' ),
				'installation' => _x( 'Installation', 'Plugin installer section title' ),
				'faq'          => _x( 'FAQ', 'Plugin installer section title' ),
				'changelog'    => _x( 'Changelog', 'Plugin installer section title' ),
			];
			$sections = $this->sections( $manifest );
			iframe_header( $this->extension->name() );
			printf( '<div class="wrap"><h1>%s</h1>', esc_html( trim( $this->extension->name() . ' ' . $version ) ) );
			foreach ( array_filter( array_intersect_key( $titles, $sections ) ) as $name => $title ) {
				printf( '<h2>%s</h2>%s', esc_html( $title ), wp_kses_post( $sections[ $name ] ) );
			}
			echo '</div>';
			iframe_footer();
			exit;
		}

		/**
		 * Whether this is a name of the plugin: its folder, or its name on the server, unless another plugin's folder has that name.
		 *
		 * @param mixed $name
		 */
		private function is_called( $name ): bool {
			return $name === $this->extension->folder
				|| ( $name === $this->config->slug && ! is_dir( WP_PLUGIN_DIR . '/' . $this->config->slug ) );
		}

		/**
		 * Downloads the package of an update.
		 *
		 * SECURITY: what replaces the plugin's code comes from the manifest and over https, whatever else filtered
		 * the offer. With release keys pinned, it comes no other way, and by its name whatever WordPress takes it for.
		 *
		 * @param mixed                $reply
		 * @param string               $package
		 * @param object               $upgrader
		 * @param array<string, mixed> $extra
		 * @return mixed
		 */
		public function download( $reply, $package, $upgrader, $extra = [] ) {
			$this->installation->end();
			$pins     = $this->config->pins_releases;
			$is_named = $pins && Config::is_name_of_package( $package, $this->config->slug );
			$is_ours  = $is_named || $this->extension->is_in( (array) $extra );
			if ( ! $is_ours || is_wp_error( $reply ) || ( false !== $reply && ! $pins ) ) {
				return $reply;
			}
			if ( $pins && ( false !== $reply || ! $is_named ) ) {
				return $this->refuse( new Refused( 'release_way' ), $this->offered() );
			}
			if ( $this->back ) {
				return $package === $this->back->manifest['package'] ? $this->deliver( $this->back ) : $this->error( 'download_refused' );
			}
			$installed = $this->extension->header( 'Version' );
			$manifest  = $this->known( $installed ) ?? $this->ask( $installed );
			$memory    = $this->license->memory();
			$is_for_expired = 'expired' === $memory->condition() && ( $manifest['for_expired'] ?? false );
			if ( 'expired' === $memory->condition() && ! $is_for_expired ) {
				$renew = $memory->renew_url( $this->config );
				return new \WP_Error( 'countersign_expired', esc_html( trim( $this->expired( $memory ) . ' ' . $renew ) ) );
			}
			if ( ! $memory->is_active() && ! $is_for_expired ) {
				return $this->error( 'no_update', [ '{reason}' => Settings_Page::plain( $this->config, $memory ) ] );
			}
			if ( ! $manifest && $this->license->is_elsewhere() ) {
				return $this->error( 'no_update', [ '{reason}' => Settings_Page::plain( $this->config, $memory ) ] );
			}
			if ( ! $manifest ) {
				return $this->no_download( (string) get_site_transient( $this->config->name() . '_pause' ) );
			}
			if ( '' === $manifest['package'] || $package !== $manifest['package'] ) {
				return $this->error( 'download_refused' );
			}
			// WordPress does not offer the button then, and does not stop who asks without it.
			if ( ! is_php_version_compatible( $manifest['requires_php'] ) ) {
				return $this->error( 'needs_php', [ '{requires}' => $manifest['requires_php'] ] );
			}
			isset( $upgrader->skin ) && $upgrader->skin->feedback( 'downloading_package', $package );
			if ( Config::name_of_package( $this->config->slug, $manifest['version'] ) !== $package ) {
				$this->installing = $manifest['version'];
				return $this->fetch( $package, null );
			}
			$answer = $this->fresh_answer( $memory, $installed );
			return is_wp_error( $answer ) ? $answer : $this->deliver( $answer );
		}

		/**
		 * Downloads the package of an answer, and checks it where release keys are pinned.
		 *
		 * @return string|\WP_Error The file's path.
		 */
		private function deliver( Answer $answer ) {
			$this->installing = $answer->manifest['version'];
			$statement        = $answer->statement_of_release;
			$file             = $this->fetch( $answer->link, $statement ? $statement->size : null );
			if ( ! $statement || ( is_wp_error( $file ) && Http::TOO_LARGE !== $file->get_error_code() ) ) {
				return $file;
			}
			try {
				if ( is_wp_error( $file ) ) {
					throw new Refused( 'release_size', [ '{size}' => '', '{signed}' => (string) $statement->size ] );
				}
				$this->installation->begin( $file, $statement );
				return $file;
			} catch ( Refused $reason ) {
				is_string( $file ) && wp_delete_file( $file );
				return $this->refuse( $reason, $statement->version );
			}
		}

		/** @return string|\WP_Error The file's path. */
		private function fetch( string $link, ?int $size ) {
			$refused = [
				'redirect' => $this->config->texts->get( 'download_redirect' ),
				'server'   => $this->config->texts->get( 'download_denied' ),
			];
			return Download::fetch( $link, $refused, $size );
		}

		/**
		 * A link to the package of the latest release, which may be newer than the one that was offered, with its proof where
		 * one is needed.
		 *
		 * @return Answer|\WP_Error
		 */
		private function fresh_answer( Memory $memory, string $installed ) {
			$answer = 'expired' === $memory->condition()
				? $this->server->security_update( $memory->key, $installed )
				: $this->server->updates( $memory->key, $installed );
			if ( '' !== $answer->detail() ) {
				return $this->error( 'download_denied', [ '{reason}' => $answer->detail() ] );
			}
			if ( '' === $answer->link || ! $answer->manifest ) {
				return $this->no_download( $answer->trouble );
			}
			try {
				$this->prove( $answer, $installed );
			} catch ( Refused $reason ) {
				return $this->refuse( $reason, $answer->manifest['version'] );
			}
			$manifest = $answer->manifest;
			if ( ! self::is_newer( $manifest, $installed ) || ! self::fits( $manifest ) ) {
				return $this->error( 'download_unknown' );
			}
			if ( ! is_php_version_compatible( $manifest['requires_php'] ) ) {
				return $this->error( 'needs_php', [ '{requires}' => $manifest['requires_php'] ] );
			}
			return $answer;
		}

		/** @param string $trouble Why the server's last answer was none; empty where it was one. */
		private function no_download( string $trouble ): \WP_Error {
			return '' === $trouble ? $this->error( 'download_unknown' ) : $this->error( 'download_no_answer', [ '{reason}' => $trouble ] );
		}

		/**
		 * Proves the release that a manifest is about, if release keys are pinned. What it needs is then what was signed.
		 *
		 * @throws Refused Where it is not proven.
		 */
		private function prove( Answer $answer, string $installed ): void {
			if ( ! $this->config->pins_releases ) {
				return;
			}
			$statement = Release::prove( $answer->release, $this->config, $answer->manifest['version'], $installed );

			$answer->statement_of_release     = $statement;
			$answer->manifest['requires']     = $statement->requires;
			$answer->manifest['requires_php'] = $statement->requires_php;
		}

		/**
		 * Looks at the file again right before it is unpacked.
		 *
		 * @param mixed  $result
		 * @param string $file
		 * @param string $folder
		 * @return mixed
		 */
		public function check_archive( $result, $file, $folder ) {
			// What is unpacked after the package is something else's business.
			if ( ! $this->installation->is_under_way() || $this->installation->is_unpacked() ) {
				return $result;
			}
			try {
				$this->installation->unpack( (string) $file, (string) $folder );
				return $result;
			} catch ( Refused $reason ) {
				$this->installation->end( (string) $file );
				return $this->refuse( $reason, $this->installing );
			}
		}

		/**
		 * The same before WordPress 6.4, which asks about nothing but how to unpack: a file that has changed is taken away.
		 *
		 * @param mixed $uses_ziparchive
		 * @return mixed
		 */
		public function check_unnamed_archive( $uses_ziparchive ) {
			if ( ! $this->installation->is_under_way() ) {
				return $uses_ziparchive;
			}
			try {
				$this->installation->check_again();
			} catch ( Refused $reason ) {
				$file = $this->installation->file();
				$this->installation->end();
				// WordPress deletes it afterwards.
				touch( $file );
				$this->refuse( $reason, $this->installing );
			}
			return $uses_ziparchive;
		}

		/** Explains why a release is not installed, and keeps the reason for those who look for updates. */
		private function refuse( Refused $reason, string $version ): \WP_Error {
			$values  = $reason->values + [ '{version}' => $version, '{installed}' => $this->extension->header( 'Version' ) ];
			$refusal = [ 'text' => $reason->getMessage(), 'values' => $values, 'version' => $version ];
			set_site_transient( $this->config->name() . '_refused', $refusal, DAY_IN_SECONDS );
			return new \WP_Error( 'countersign_' . $reason->getMessage(), esc_html( $this->sentence_of( $refusal ) ) );
		}

		/** @param array{text: string, values: array<string, string>, version: string} $refusal */
		private function sentence_of( array $refusal ): string {
			$name   = $refusal['text'];
			$values = $refusal['values'];
			$report = [ $this->config->slug, $values['{installed}'] ?? '', $values['{version}'] ?? '', $name ];
			$detail = array_diff_key( $values, [ '{installed}' => 0, '{version}' => 0 ] );
			$is_one = 'release_signatures' === $name && '1' === ( $values['{needed}'] ?? '' );
			$values['{reason}'] = $this->config->texts->get( $is_one ? 'release_signature' : $name, $values );
			$values['{report}'] = implode( ' ', array_filter( array_merge( $report, $detail ), 'strlen' ) );
			return $this->config->texts->get( 'release_refused', $values );
		}

		/**
		 * Checks what was unpacked. Of what is refused, nothing stays: WordPress would keep it until the next update.
		 *
		 * @param mixed                $source Where the archive was unpacked, or an error.
		 * @param string               $parent
		 * @param mixed                $upgrader
		 * @param array<string, mixed> $extra
		 * @return mixed
		 */
		public function select_source( $source, $parent, $upgrader, $extra = [] ) {
			global $wp_filesystem;
			$checked = $this->check_source( $source, $parent, $upgrader, $extra );
			if ( is_wp_error( $checked ) && ! is_wp_error( $source ) ) {
				$upgrade  = $wp_filesystem->wp_content_dir() . 'upgrade/';
				$unpacked = trailingslashit( (string) $parent );
				if ( $unpacked !== $upgrade && 0 === strpos( $unpacked, $upgrade ) ) {
					$wp_filesystem->delete( $unpacked, true );
				}
			}
			return $checked;
		}

		/**
		 * Looks at what was unpacked before anything is replaced, and gives it the name of the plugin's own folder: WordPress
		 * deletes the old folder, and would find no plugin under its name any more.
		 *
		 * SECURITY: a package of another plugin or of another version, an older one above all, is not installed.
		 *
		 * @param mixed                $source Where the archive was unpacked, or an error.
		 * @param string               $parent
		 * @param mixed                $upgrader
		 * @param array<string, mixed> $extra
		 * @return mixed
		 */
		private function check_source( $source, $parent, $upgrader, $extra = [] ) {
			global $wp_filesystem;
			$is_ours = $this->installation->is_under_way() || $this->extension->is_in( (array) $extra );
			if ( is_wp_error( $source ) || ! $is_ours ) {
				return $source;
			}
			$source = trailingslashit( $source );
			$parent = trailingslashit( $parent );
			try {
				$this->config->pins_releases && $this->installation->check_unpacked( $source, $parent );
			} catch ( Refused $reason ) {
				return $this->refuse( $reason, $this->offered() );
			} finally {
				$this->installation->end();
			}
			$folder = $parent . ( $this->extension->is_theme() ? $this->extension->folder : dirname( $this->extension->id ) ) . '/';
			$main   = $source . basename( $this->extension->file );
			if ( $source === $parent || ! $wp_filesystem->exists( $main ) ) {
				return $this->error( 'archive_refused' );
			}
			$header = $this->header_of( (string) $wp_filesystem->get_contents( $main ) );
			if ( ! $this->is_ours( $header ) ) {
				return $this->error( 'archive_other', [ '{found}' => $header['name'] ] );
			}
			$offered   = $this->offered();
			$installed = $this->extension->header( 'Version' );
			if ( '' !== $offered && 0 !== version_compare( $header['version'], $offered ) ) {
				return $this->error( 'archive_version', [ '{found}' => $header['version'], '{version}' => $offered ] );
			}
			if ( '' === $offered && ! version_compare( $header['version'], $installed, '>' ) ) {
				return $this->error( 'archive_older', [ '{found}' => $header['version'], '{version}' => $installed ] );
			}
			return $source === $folder || $wp_filesystem->move( $source, $folder ) ? $folder : $this->error( 'archive_refused' );
		}

		/** The version that was offered, even if another plugin's filter downloaded the package; empty where nobody knows. */
		private function offered(): string {
			if ( '' !== $this->installing ) {
				return $this->installing;
			}
			$looked = get_site_transient( $this->extension->updates() );
			$update = (array) ( $looked->response[ $this->extension->id ] ?? [] );
			$known  = $this->known( $this->extension->header( 'Version' ) ) ?? [];
			return (string) ( $known['version'] ?? $update['new_version'] ?? '' );
		}

		/**
		 * What an unpacked main file says of itself. WordPress reads the first 8 KiB, and of a file on this machine only,
		 * which the unpacked one is not where it is written through FTP.
		 *
		 * @return array<string, string>
		 */
		private function header_of( string $content ): array {
			$name   = $this->extension->is_theme() ? 'Theme Name' : 'Plugin Name';
			$fields = [ 'name' => $name, 'version' => 'Version', 'update_uri' => 'Update URI', 'domain' => 'Text Domain' ];
			$copy   = wp_tempnam( 'header' );
			file_put_contents( $copy, substr( $content, 0, 8 * KB_IN_BYTES ) );
			$header = get_file_data( $copy, $fields );
			wp_delete_file( $copy );
			return $header;
		}

		/**
		 * Whether a header is of this plugin or theme: it may be renamed, or move to another server, but not everything at once.
		 *
		 * @param array<string, string> $header
		 */
		private function is_ours( array $header ): bool {
			$path = (string) wp_parse_url( $header['update_uri'], PHP_URL_PATH );
			return '' !== $header['name'] && '' !== $header['version'] && (
				$header['name'] === $this->extension->name()
				|| $header['domain'] === $this->config->slug
				|| basename( $path ) === $this->config->slug
			);
		}

		/**
		 * The version that this WordPress is too old for, with what it needs; empty where there is none.
		 *
		 * @return array<string, string>
		 */
		public function held_back(): array {
			$installed = $this->extension->header( 'Version' );
			$manifest  = $this->known( $installed ) ?? [];
			return self::is_newer( $manifest, $installed ) && ! self::fits( $manifest )
				? [ '{version}' => $manifest['version'], '{requires}' => $manifest['requires'] ]
				: [];
		}

		/** Whether the server's last answer was something newer. */
		public function has_news(): bool {
			$installed = $this->extension->header( 'Version' );
			return self::is_newer( $this->known( $installed ) ?? [], $installed );
		}

		/** Whether something newer is out that an expired license does not get, and whose version could not be read. */
		public function missed_unread(): bool {
			return 'expired' === $this->license->memory()->condition()
				&& ! in_array( get_site_transient( $this->config->name() . '_refused' ), [ false, '' ], true );
		}

		/** Why the server's last answer about updates could not be used, or an update not be installed, in a sentence; empty where none. */
		public function refused(): string {
			$refusal = $this->license->memory()->is_active() ? get_site_transient( $this->config->name() . '_refused' ) : '';
			if ( is_array( $refusal ) ) {
				// Another version of this file may have kept it.
				$values = array_filter( (array) ( $refusal['values'] ?? [] ), 'is_string' );
				return $this->sentence_of( [ 'text' => (string) ( $refusal['text'] ?? '' ), 'values' => $values, 'version' => '' ] );
			}
			return is_string( $refusal ) && '' !== $refusal ? $this->config->texts->get( 'unreadable', [ '{reason}' => $refusal ] ) : '';
		}

		/**
		 * Asks for the manifest for a site with this version; empty where there is none. Where the server does not answer, what
		 * it said before is good enough, and no page waits for it twice in a quarter of an hour.
		 *
		 * @return array<string, mixed>
		 */
		private function ask( string $version ): array {
			$name   = $this->config->name();
			$memory = $this->license->memory();
			if ( ! self::may_ask( $memory ) || $this->license->is_elsewhere() || get_site_transient( $name . '_pause' ) ) {
				return $this->known( $version ) ?? [];
			}
			$answer = $this->server->updates( $memory->key, $version );
			$is_expired = 'expired' === $memory->condition() && 403 === $answer->status;
			if ( $is_expired ) {
				$answer = $this->answer_to_expired( $answer, $memory, $version );
			}
			try {
				$this->prove_news( $answer, $version );
				// The notice is on another page, and WordPress asks twice a day.
				$answer->unreadable || ( null === $answer->manifest && 200 === $answer->status )
					? set_site_transient( $name . '_refused', $answer->trouble, DAY_IN_SECONDS )
					: $this->forget_refused( $answer->manifest );
			} catch ( Refused $reason ) {
				$this->refuse( $reason, $answer->manifest['version'] );
				$answer->manifest = [];
			}
			if ( null === $answer->manifest ) {
				set_site_transient( $name . '_pause', $answer->trouble, max( 15 * MINUTE_IN_SECONDS, $answer->retry_after ) );
				403 === $answer->status && $this->license->doubt();
				return $this->known( $version ) ?? [];
			}
			if ( $answer->manifest ) {
				$answer->manifest['asked']       = time();
				$answer->manifest['for_expired'] = $is_expired && 200 === $answer->status;
			}
			// What was said to who asked for any version, in the details window, is kept beside what the update needs.
			$known = '' === $version ? $this->kept() : [];
			set_site_transient( $name, [ $version => $answer->manifest ] + $known, DAY_IN_SECONDS );
			return $answer->manifest;
		}

		/** What an expired license gets: a security release where its vendor gives it one, or else the name of the latest version. */
		private function answer_to_expired( Answer $refusal, Memory $memory, string $version ): Answer {
			if ( '' !== $version && ( $refusal->latest['security'] ?? false ) ) {
				$answer = $this->server->security_update( $memory->key, $version );
				// An older server does not know the question.
				if ( $answer->manifest && self::is_newer( $answer->manifest, $version ) ) {
					return $answer;
				}
			}
			$refusal->manifest = $refusal->latest ?? [];
			return $refusal;
		}

		/**
		 * Proves a release that is newer than the site's version. The details window asks without a version, and may get the installed one.
		 *
		 * @throws Refused Where it is not proven.
		 */
		private function prove_news( Answer $answer, string $version ): void {
			// What is installed can have changed in this request.
			$installed = '' === $version ? $this->extension->header( 'Version' ) : $version;
			$is_news   = 200 === $answer->status && $answer->manifest && ( '' !== $version || self::is_newer( $answer->manifest, $installed ) );
			$is_news && $this->prove( $answer, $installed );
		}

		/**
		 * What was refused is over when an answer can be used, unless that was the package of the same version.
		 *
		 * @param array<string, mixed>|null $manifest
		 */
		private function forget_refused( ?array $manifest ): void {
			$refusal    = get_site_transient( $this->config->name() . '_refused' );
			$is_package = is_array( $refusal ) && ! in_array( $refusal['text'] ?? '', Release::WHY_NOT_OFFERED, true );
			$is_same    = is_array( $refusal ) && ( $refusal['version'] ?? '' ) === ( $manifest['version'] ?? null );
			if ( ! is_array( $refusal ) || ( null !== $manifest && ! ( $is_package && $is_same ) ) ) {
				delete_site_transient( $this->config->name() . '_refused' );
			}
		}

		/**
		 * What the server last said to a site with this version; null where that is not known, or no longer for this site.
		 *
		 * @return array<string, mixed>|null
		 */
		private function known( string $version ): ?array {
			$memory = $this->license->memory();
			$known  = self::may_ask( $memory ) ? $this->kept()[ $version ] ?? null : null;
			// SECURITY: an answer to an active license has more than an expired one may see.
			if ( is_array( $known ) && 'expired' === $memory->condition() && true !== ( $known['for_expired'] ?? false ) ) {
				$known = array_intersect_key( $known, [ 'version' => 0, 'security' => 0 ] );
			}
			// Another version of this file may have kept it.
			return Manifest::read( $known, $this->config->slug, $this->config->pins_releases );
		}

		/** @return array<string, mixed> What is kept of manifests, by the version that was asked for; another plugin may have written it. */
		private function kept(): array {
			$kept = get_site_transient( $this->config->name() );
			return is_array( $kept ) ? $kept : [];
		}

		/** An expired license may learn of versions, and of nothing else. */
		private static function may_ask( Memory $memory ): bool {
			return $memory->is_active() || 'expired' === $memory->condition();
		}

		/** @param array<string, string> $values */
		private function error( string $text, array $values = [] ): \WP_Error {
			return new \WP_Error( 'countersign_' . $text, esc_html( $this->config->texts->get( $text, $values ) ) );
		}

		/** @param array<string, mixed> $manifest */
		private static function is_newer( array $manifest, string $installed ): bool {
			return version_compare( $manifest['version'] ?? '', $installed, '>' );
		}

		/**
		 * Whether this WordPress is new enough. PHP is left to WordPress, which shows the update and says what it needs.
		 *
		 * @param array<string, mixed> $manifest
		 */
		private static function fits( array $manifest ): bool {
			return is_wp_version_compatible( $manifest['requires'] );
		}

		/** Tested up to 6.5 means 6.5.5, too, which WordPress.org spells out for its plugins and wp-admin expects. */
		private static function tested( string $tested ): string {
			// Without the filter of get_bloginfo(), and without the suffix of a version that is not out yet.
			$running = (string) preg_replace( '/-.*$/', '', $GLOBALS['wp_version'] );
			$branch  = '/^\d+\.\d+(?=\.|$)/';
			$same    = preg_match( $branch, $tested, $of_tested ) && preg_match( $branch, $running, $of_running )
				&& $of_tested[0] === $of_running[0];
			return $same && version_compare( $tested, $running, '<' ) ? $running : $tested;
		}
	}

	/**
	 * The page where a person enters the license key, and the notices that point there.
	 */
	final class Settings_Page {

		/** How long what came of a button is shown, in seconds. */
		private const SHOWN = 60;
		/** What came of a button that did what it says. */
		private const GOOD = [ 'ok', 'deactivated', 'removed', 'channel_changed', 'channel_left', 'gone_back' ];

		private Config $config;
		private License $license;
		private Updates $updates;
		/** Whether the page is in the network's administration. */
		private bool $in_network;
		/** What came of a button: a Texts name. */
		private string $outcome = '';
		/** What was typed and is not a key yet: shown again in its field, and never stored. */
		private string $typed = '';
		/** @var int[] The groups of it that look wrong. */
		private array $groups = [];
		/** Why a button did not do what it says, where no text of ours alone explains it. */
		private ?\WP_Error $flaw = null;
		/** @var array<int, array<string, mixed>> Manifests that name the versions to which this site may go back. */
		private array $earlier = [];
		/** Whether the message of the page is about the key that was typed. */
		private bool $is_about_key = false;

		public function __construct( Config $config, License $license, Updates $updates ) {
			$this->config     = $config;
			$this->license    = $license;
			$this->updates    = $updates;
			$this->in_network = $config->network && $config->extension->is_network_wide();
		}

		public function hook(): void {
			$network = $this->in_network ? 'network_' : '';
			add_action( $network . 'admin_notices', [ $this, 'notify' ] );
			add_action( $network . 'admin_notices', [ $this, 'tell_of_refused' ] );
			add_action( 'admin_post_' . $this->config->name() . '_dismiss', [ $this, 'dismiss' ] );
			add_action( 'admin_init', [ $this, 'suggest_privacy_policy' ] );
			if ( ! $this->config->has_page ) {
				return;
			}
			// After the plugin's own menu, which this page may stand in.
			add_action( $network . 'admin_menu', [ $this, 'add' ], 20 );
			// The page of a site's themes shows no links; its menu has this page.
			$links = $this->config->extension->type . '_action_links_' . $this->config->extension->id;
			add_filter( ( $this->in_network && ! $this->config->extension->is_theme() ? 'network_admin_' : '' ) . $links, [ $this, 'link' ] );
		}

		public function add(): void {
			$page = add_submenu_page(
				$this->parent(),
				$this->text( 'title' ),
				'' === $this->config->menu_parent ? $this->text( 'menu' ) : $this->text( 'link' ),
				$this->config->capability,
				$this->page(),
				[ $this, 'show' ]
			);
			if ( $page ) {
				add_action( 'load-' . $page, [ $this, 'submit' ] );
			}
		}

		/**
		 * Adds a link to the row of the plugin, or of the theme in a network.
		 *
		 * @param mixed $links An array of texts, unless another plugin's filter lost it.
		 * @return string[]
		 */
		public function link( $links ): array {
			$links = (array) $links;
			$link  = sprintf( '<a href="%s">%s</a>', esc_url( $this->url() ), esc_html( $this->text( 'link' ) ) );
			return current_user_can( $this->config->capability ) ? [ 'license' => $link ] + $links : $links;
		}

		/** Does what a button says. What worked leads to the page again; what did not is shown with what was typed. */
		public function submit(): void {
			if ( 'POST' !== ( $_SERVER['REQUEST_METHOD'] ?? '' ) ) {
				$this->outcome = $this->proven_outcome();
				return;
			}
			check_admin_referer( $this->page() );
			$this->require_right( $this->config->capability );
			switch ( sanitize_key( $_POST['do'] ?? '' ) ) {
				case 'activate':
					$this->activate( $_POST['license_key'] ?? '' );
					break;
				case 'check':
					$this->outcome = $this->license->validate();
					break;
				case 'move':
					$this->outcome = $this->license->move();
					break;
				case 'copy':
					$this->outcome = $this->license->copy();
					break;
				case 'take_back':
					$this->outcome = $this->license->take_back();
					break;
				case 'remove':
					$this->outcome = 'remove_really';
					break;
				case 'remove_really':
					$this->outcome = $this->license->deactivate();
					break;
				case 'remove_only':
					$this->outcome = $this->license->remove();
					break;
				case 'change_channel':
					$this->require_right( $this->config->extension->updates() );
					$this->change_channel( sanitize_key( $_POST['channel'] ?? '' ) );
					break;
				case 'back':
					$this->require_right_to_go_back();
					$this->show_earlier( $this->updates->earlier() );
					break;
				case 'back_really':
					$this->require_right_to_go_back();
					$this->go_back( $_POST['version'] ?? '' );
					// Show the result in this answer: the older version's own page may not know of it.
					return;
				default:
					return;
			}
			if ( in_array( $this->outcome, self::GOOD, true ) ) {
				$now = time();
				wp_safe_redirect( add_query_arg( [ 'outcome' => $this->outcome, 'at' => $now, 'proof' => $this->proof( $this->outcome, $now ) ], $this->url() ) );
				exit;
			}
		}

		private function require_right( string $capability ): void {
			if ( ! current_user_can( $capability ) ) {
				wp_die( esc_html( $this->text( 'forbidden' ) ), '', [ 'response' => 403 ] );
			}
		}

		private function require_right_to_go_back(): void {
			$this->may_go_back() || wp_die( esc_html( $this->text( 'forbidden' ) ), '', [ 'response' => 403 ] );
		}

		/** Whether this page has the button: in a network, all sites go back at once. */
		private function may_go_back(): bool {
			return current_user_can( $this->config->extension->updates() ) && ( ! is_multisite() || $this->in_network );
		}

		/** @param array<int, array<string, mixed>>|\WP_Error $earlier */
		private function show_earlier( $earlier ): void {
			$this->flaw    = is_wp_error( $earlier ) ? $earlier : null;
			$this->earlier = is_wp_error( $earlier ) ? [] : $earlier;
			$this->outcome = 'back';
		}

		/** @param mixed $version */
		private function go_back( $version ): void {
			$version = is_string( $version ) ? wp_unslash( $version ) : '';
			if ( ! preg_match( Manifest::VERSION, $version ) ) {
				$this->show_earlier( $this->updates->earlier() );
				return;
			}
			$this->flaw    = $this->updates->go_back( $version );
			$this->outcome = $this->flaw ? 'back' : 'gone_back';
		}

		private function change_channel( string $name ): void {
			$is_pre_release = Channel::is_pre_release( $this->config->extension->header( 'Version' ) );
			$this->updates->change_channel( $name );
			// A release that is offered now is the way out, and nobody has to go back.
			$is_left       = $is_pre_release && '' === ( new Channel( $this->config ) )->wish() && ! $this->updates->has_news();
			$this->outcome = $is_left ? 'channel_left' : 'channel_changed';
		}

		/** @param mixed $typed */
		private function activate( $typed ): void {
			$typed = is_string( $typed ) ? wp_unslash( $typed ) : '';
			$read  = $this->config->read_key( $typed );

			$this->outcome = isset( $read['key'] ) ? $this->license->activate( $read['key'] ) : $read['error'];
			$this->groups  = isset( $read['key'] ) && 'key_mistyped' !== $this->outcome ? [] : $read['groups'] ?? [];
			// What came of the question is not the key's fault.
			$others             = [ 'ok', 'moved', 'no_answer', 'not_before', 'not_saved', 'busy', 'key_is_fixed' ];
			$this->is_about_key = ! in_array( $this->outcome, $others, true );
			// A key that was kept need not be typed again.
			$kept        = isset( $read['key'] ) && $read['key'] === $this->license->memory()->key;
			$this->typed = $kept ? '' : substr( wp_check_invalid_utf8( $typed ), 0, 128 );
		}

		/** What came of a button before the page was loaded again; an address that somebody else made says nothing. */
		private function proven_outcome(): string {
			$outcome = sanitize_key( $_GET['outcome'] ?? '' );
			$at      = absint( $_GET['at'] ?? 0 );
			$proof   = is_string( $_GET['proof'] ?? null ) ? $_GET['proof'] : '';
			$recent  = abs( time() - $at ) <= self::SHOWN;
			return $recent && hash_equals( $this->proof( $outcome, $at ), $proof ) ? $outcome : '';
		}

		private function proof( string $outcome, int $at ): string {
			return wp_hash( $this->page() . '|' . $outcome . '|' . $at . '|' . get_current_user_id(), 'nonce' );
		}

		public function show(): void {
			$memory = $this->license->memory();
			echo '<div class="wrap"><h1>', esc_html( $this->text( 'title' ) ), '</h1>';
			$this->show_message( $memory );
			echo '<form method="post" action="', esc_url( $this->url() ), '">';
			wp_nonce_field( $this->page() );
			if ( 'remove_really' === $this->outcome ) {
				$this->show_question();
			} elseif ( $this->earlier ) {
				$this->show_way_back();
			} else {
				$this->show_form( $memory );
			}
			echo '</form>';
			do_action( $this->config->name() . '_page' );
			echo '</div>';
		}

		/** The one message of the page: what came of a button, or what an administrator should know of the license. */
		private function show_message( Memory $memory ): void {
			$good = in_array( $this->outcome, self::GOOD, true );
			$text = '';
			if ( 'remove_really' === $this->outcome || $this->earlier ) {
				return;
			}
			if ( $this->flaw ) {
				$text = wp_strip_all_tags( html_entity_decode( implode( ' ', $this->flaw->get_error_messages() ), ENT_QUOTES ) );
			} elseif ( '' !== $this->outcome && 'moved' !== $this->outcome && $this->outcome !== $memory->condition() ) {
				$text = $this->text( $this->outcome, [ '{reason}' => $memory->trouble, '{host}' => $memory->host() ] );
				if ( $this->groups ) {
					$text .= ' ' . $this->text( 1 === count( $this->groups ) ? 'group' : 'groups', [ '{groups}' => implode( ', ', $this->groups ) ] );
				}
			} elseif ( Memory::CONDITION_ACTIVE !== self::concern( $this->config, $memory ) ) {
				$text = $this->sentence( $memory );
			}
			$kind = $good ? 'success' : ( Memory::CONDITION_NO_KEY === $memory->condition() && '' === $this->outcome ? 'info' : 'error' );
			$kind = 0 === strpos( $memory->concern(), 'ends_' ) && '' === $this->outcome ? 'warning' : $kind;
			if ( '' !== $text ) {
				printf(
					'<div class="notice notice-%s" id="%s-message" role="%s"><p>%s%s</p></div>',
					esc_attr( $kind ),
					esc_attr( $this->page() ),
					'error' === $kind ? 'alert' : 'status',
					esc_html( $text ),
					'' === $this->outcome || ! $good ? wp_kses_post( $this->help( $memory ) ) : ''
				);
			}
		}

		private function show_question(): void {
			echo '<p>', esc_html( $this->text( 'remove_question' ) ), '</p><p class="submit">';
			$this->show_button( 'remove_really', 'button button-primary' );
			printf( '<a class="button" href="%s">%s</a>', esc_url( $this->url() ), esc_html( $this->text( 'cancel' ) ) );
			echo '</p>';
		}

		/** Asks which version to go back to, and says what that means. */
		private function show_way_back(): void {
			$hint = $this->page() . '-back-hint';
			printf( '<fieldset aria-describedby="%s"><legend><h2>%s</h2></legend>', esc_attr( $hint ), esc_html( $this->text( 'back_title' ) ) );
			foreach ( $this->earlier as $index => $manifest ) {
				$time = (int) strtotime( $manifest['last_updated'] . ' UTC' );
				printf(
					'<p><label><input type="radio" name="version" value="%s"%s> %s</label> %s</p>',
					esc_attr( $manifest['version'] ),
					0 === $index ? ' checked' : '',
					esc_html( $manifest['version'] ),
					$time ? esc_html( '(' . self::moment( $time ) . ')' ) : ''
				);
			}
			printf( '</fieldset><p id="%s">%s</p><p class="submit">', esc_attr( $hint ), esc_html( $this->text( 'back_hint' ) ) );
			$this->show_button( 'back_really', 'button button-primary', $hint );
			printf( '<a class="button" href="%s">%s</a></p>', esc_url( $this->url() ), esc_html( $this->text( 'cancel' ) ) );
		}

		private function show_form( Memory $memory ): void {
			echo '<table class="form-table" role="presentation">';
			$this->show_row( 'status', $this->text( 'is_' . $memory->condition() ) );
			if ( $memory->grants() ) {
				$this->show_row( 'modules', implode( ', ', array_map( [ $this->config, 'name_of' ], $memory->statement['modules'] ) ) );
				'' !== self::day( $memory ) && $this->show_row( 'expires', self::day( $memory ) );
			}
			$links = '' === $memory->upgrade_url() ? '' : self::anchor( $memory->upgrade_url(), $this->text( 'upgrade' ) );
			if ( $memory->grants() && '' !== $memory->account_url( $this->config ) ) {
				$links .= self::anchor( $memory->account_url( $this->config ), $this->text( 'account' ) );
			}
			if ( '' !== $links ) {
				printf( '<tr><th scope="row">%s</th><td>%s</td></tr>', esc_html( $this->text( 'more' ) ), wp_kses_post( $links ) );
			}
			if ( $memory->statement ) {
				$this->show_row( $memory->grants() ? 'last_confirmed' : 'last_answer', self::moment( (int) strtotime( $memory->statement['issued_at'] ) ) );
			}
			if ( '' !== $memory->trouble ) {
				$this->show_row( 'trouble', $memory->trouble );
			}
			if ( $this->updates->held_back() ) {
				$this->show_row( 'update', $this->text( 'needs_wordpress', $this->updates->held_back() ) );
			}
			$missed = $this->updates->missed();
			if ( $missed ) {
				$this->show_row( 'update', $this->missed( $missed ) );
			}
			if ( '' !== $this->updates->refused() ) {
				$this->show_row( 'update', $this->updates->refused() );
			}
			$fixed = null !== $this->config->fixed_key();
			if ( $fixed ) {
				$values = [ '{constant}' => $this->config->key_constant, '{end}' => substr( $memory->key, -5 ) ];
				$used   = $memory->is_white_label() ? 'constant_set' : 'constant_used';
				$this->show_row( 'key', $this->text( '' === $memory->key ? 'constant_wrong' : $used, $values ) );
			} else {
				$this->show_key_field( $memory );
			}
			if ( '' !== $memory->key && current_user_can( $this->config->extension->updates() ) ) {
				$this->show_channel();
			}
			if ( $this->license->is_elsewhere() ) {
				$this->show_answers( $memory, 'moved_question', [ 'move', 'copy' ] );
			} elseif ( $this->license->may_take_back() ) {
				$this->show_answers( $memory, 'take_back_question', [ 'take_back' ] );
			}
			echo '</table><p class="submit">';
			if ( '' !== $memory->key && ! $this->license->is_elsewhere() ) {
				$this->show_button( 'check', 'button' );
				$memory->is_active() && $this->may_go_back() && $this->show_button( 'back', 'button' );
				$fixed || $this->show_button( 'remove', 'button' );
				'not_released' === $this->outcome && $this->show_button( 'remove_only', 'button' );
			}
			echo '</p>';
		}

		/**
		 * Asks whether the site has moved or is a copy, or whether its license was taken by mistake. Only the answer says which license is
		 * whose.
		 *
		 * @param string[] $answers The buttons.
		 */
		private function show_answers( Memory $memory, string $question, array $answers ): void {
			printf( '<tr><th scope="row">%s</th><td>', esc_html( $this->text( $question ) ) );
			foreach ( $answers as $answer ) {
				$hint = $this->page() . '-' . $answer;
				echo '<p>';
				$this->show_button( $answer, 'button', $hint );
				$values = [ '{host}' => $memory->host(), '{domain}' => (string) ( $memory->statement['bound_domain'] ?? '' ) ];
				printf( '</p><p class="description" id="%s">%s</p><br>', esc_attr( $hint ), esc_html( $this->text( $answer . '_hint', $values ) ) );
			}
			echo '</td></tr>';
		}

		/** Tells everybody who can do something about it that the license needs attention, until they have dismissed that. */
		public function notify(): void {
			$memory = $this->license->memory();
			if ( ! $this->is_told( $memory ) ) {
				return;
			}
			$missed = $this->updates->missed();
			$links  = [ $this->config->has_page ? self::anchor( $this->url(), $this->text( 'link' ) ) : '', $this->help( $memory ) ];
			// WordPress adds no button of its own beside a link of this class.
			printf(
				'<div class="notice notice-warning is-dismissible"><p><strong>%s</strong> %s%s</p>'
					. '<a class="notice-dismiss" style="text-decoration:none" href="%s"><span class="screen-reader-text">%s</span></a></div>',
				esc_html( $this->config->extension->name() . ':' ),
				esc_html( $this->sentence( $memory ) . ( $missed ? ' ' . $this->missed( $missed ) : '' ) ),
				wp_kses_post( implode( ' |', array_filter( $links ) ) ),
				esc_url( $this->dismissal( $memory ) ),
				esc_html__( 'Dismiss this notice.' )
			);
		}

		/** Whether this page has the notice for this user. */
		private function is_told( Memory $memory ): bool {
			$concern = self::concern( $this->config, $memory );
			if ( Memory::CONDITION_ACTIVE === $concern || ! current_user_can( $this->config->capability ) || $this->is_here() ) {
				return false;
			}
			// A page that hides notices is no place for one.
			$screen = function_exists( 'get_current_screen' ) ? get_current_screen() : null;
			if ( defined( 'IFRAME_REQUEST' ) || ( $screen && $screen->is_block_editor() ) ) {
				return false;
			}
			$name = Config::name_of_dismissed( $this->config->slug, $this->config->network );
			return get_user_meta( get_current_user_id(), $name, true ) !== $this->notice( $memory )
				&& apply_filters( $this->config->name() . '_notice', true, $concern );
		}

		/** What a user dismisses: another condition, another end or another host is another notice. */
		private function notice( Memory $memory ): string {
			$here  = self::concern( $this->config, $memory ) === $memory->concern() ? '' : Statement::host( $this->config->site_url() );
			$about = [ $memory->concern(), $memory->statement['expires'] ?? '', $here ];
			return substr( md5( implode( ' ', $about ) ), 0, 16 );
		}

		/** The address that dismisses the notice and leads back to this page, with and without JavaScript. */
		private function dismissal( Memory $memory ): string {
			$action = $this->config->name() . '_dismiss';
			$from   = is_string( $_SERVER['REQUEST_URI'] ?? null ) ? wp_unslash( $_SERVER['REQUEST_URI'] ) : '';
			$query  = [
				'action'           => $action,
				'notice'           => $this->notice( $memory ),
				'_wpnonce'         => wp_create_nonce( $action ),
				'_wp_http_referer' => $from,
			];
			return admin_url( 'admin-post.php?' . http_build_query( $query, '', '&' ) );
		}

		/** Remembers that this user has read a notice. */
		public function dismiss(): void {
			check_admin_referer( $this->config->name() . '_dismiss' );
			if ( current_user_can( $this->config->capability ) ) {
				$name = Config::name_of_dismissed( $this->config->slug, $this->config->network );
				update_user_meta( get_current_user_id(), $name, sanitize_key( $_GET['notice'] ?? '' ) );
			}
			$from = wp_get_referer();
			wp_safe_redirect( $from ? $from : admin_url() );
			exit;
		}

		/** Suggests what a site's privacy policy says of the license. */
		public function suggest_privacy_policy(): void {
			$server = (string) wp_parse_url( $this->config->base_url, PHP_URL_HOST );
			$text   = $this->text( 'privacy', [ '{server}' => $server ] );
			wp_add_privacy_policy_content( $this->config->extension->name(), '<p>' . esc_html( $text ) . '</p>' );
		}

		/** Tells a person who looks for updates that there may be one, which this site cannot judge. */
		public function tell_of_refused(): void {
			$page = preg_replace( '/-network$/', '', get_current_screen()->base ?? '' );
			if ( ! in_array( $page, [ $this->config->extension->type . 's', 'update-core' ], true ) || ! current_user_can( $this->config->extension->updates() ) ) {
				return;
			}
			$memory = $this->license->memory();
			if ( $this->updates->missed_unread() && ! $this->is_told( $memory ) ) {
				printf(
					'<div class="notice notice-warning"><p><strong>%s</strong> %s%s</p></div>',
					esc_html( $this->config->extension->name() . ':' ),
					esc_html( $this->sentence( $memory ) ),
					wp_kses_post( $this->help( $memory ) )
				);
			}
			if ( '' !== $this->updates->refused() ) {
				printf(
					'<div class="notice notice-warning"><p><strong>%s</strong> %s</p></div>',
					esc_html( $this->config->extension->name() . ':' ),
					esc_html( $this->updates->refused() )
				);
			}
		}

		/** What an administrator should know: that the site seems to have moved, or else the license's own concern. */
		public static function concern( Config $config, Memory $memory ): string {
			return '' !== $memory->key && $config->is_elsewhere( $memory ) ? 'moved' : $memory->concern();
		}

		/** The vendor's page that helps with the license's own concern. */
		private function help( Memory $memory ): string {
			$concern = $memory->concern();
			if ( 'expired' === $concern || 0 === strpos( $concern, 'ends_' ) ) {
				$url = $memory->renew_url( $this->config );
				return '' === $url ? '' : self::anchor( $url, $this->text( 'renew' ) );
			}
			$of_account = in_array( $concern, [ 'no_key', 'bound_elsewhere', 'unknown_license', 'suspended', 'revoked' ], true );
			$url        = $memory->account_url( $this->config );
			return $of_account && '' !== $url ? self::anchor( $url, $this->text( 'account' ) ) : '';
		}

		public static function anchor( string $url, string $text ): string {
			return sprintf( ' <a href="%s">%s</a>', esc_url( $url ), esc_html( $text ) );
		}

		/** @param array<string, mixed> $manifest */
		private function missed( array $manifest ): string {
			return $this->text( $manifest['security'] ? 'missed_security' : 'missed', [ '{version}' => $manifest['version'] ] );
		}

		private function show_row( string $label, string $value ): void {
			printf( '<tr><th scope="row">%s</th><td>%s</td></tr>', esc_html( $this->text( $label ) ), esc_html( $value ) );
		}

		/** The field for the key, behind a word where the license is active and another key is seldom wanted. */
		private function show_key_field( Memory $memory ): void {
			$id     = $this->page() . '-key';
			$active = $memory->is_active();
			$end    = '' === $memory->key || $memory->is_white_label() ? '' : substr( $memory->key, -5 );
			printf( '<tr><th scope="row"><label for="%s">%s</label></th><td>', esc_attr( $id ), esc_html( $this->text( 'key' ) ) );
			if ( $active ) {
				printf(
					'<details%s><summary>%s%s</summary><br>',
					'' === $this->outcome || in_array( $this->outcome, [ 'ok', 'no_answer', 'busy', 'not_before' ], true ) ? '' : ' open',
					// The last group is enough to tell keys apart; the whole key stays in the database.
					'' === $end ? '' : '<code>•••••-' . esc_html( $end ) . '</code> ',
					esc_html( $this->text( 'replace' ) )
				);
			}
			printf(
				'<input type="text" id="%1$s" name="license_key" class="regular-text code" autocomplete="off" spellcheck="false"'
					. ' maxlength="128" placeholder="%2$s" value="%3$s" aria-describedby="%1$s-hint%4$s"%5$s> ',
				esc_attr( $id ),
				esc_attr( '' === $end ? '' : '•••••-•••••-•••••-•••••-' . $end ),
				esc_attr( $this->typed ),
				$this->is_about_key ? esc_attr( ' ' . $this->page() . '-message' ) : '',
				$this->is_about_key ? ' aria-invalid="true" autofocus' : ''
			);
			$this->show_button( 'activate', $active ? 'button' : 'button button-primary' );
			printf( '<p class="description" id="%s-hint">%s</p>%s</td></tr>', esc_attr( $id ), esc_html( $this->text( $this->config->foreign_keys ? 'key_hint_foreign' : 'key_hint' ) ), $active ? '</details>' : '' );
		}

		/** Which releases the site gets, where it may choose, or where its code says. */
		private function show_channel(): void {
			$channel = new Channel( $this->config );
			if ( null !== $channel->fixed() ) {
				$this->show_row( 'channel', $this->text( 'channel_' . $channel->name() ) . ' ' . $this->text( 'channel_fixed' ) );
				return;
			}
			if ( ! $channel->choices() ) {
				return;
			}
			$id = $this->page() . '-channel';
			printf(
				'<tr><th scope="row"><label for="%1$s">%2$s</label></th><td><select id="%1$s" name="channel" aria-describedby="%1$s-hint">',
				esc_attr( $id ),
				esc_html( $this->text( 'channel' ) )
			);
			foreach ( $channel->choices() as $name ) {
				$selected = $name === $channel->name() ? ' selected' : '';
				printf( '<option value="%s"%s>%s</option>', esc_attr( $name ), esc_attr( $selected ), esc_html( $this->text( 'channel_' . $name ) ) );
			}
			echo '</select> ';
			$this->show_button( 'change_channel', 'button' );
			printf( '<p class="description" id="%s-hint">%s</p></td></tr>', esc_attr( $id ), esc_html( $this->text( 'channel_hint' ) ) );
		}

		/** @param string $hint The id of the element that describes the button. */
		private function show_button( string $action, string $class, string $hint = '' ): void {
			printf(
				'<button type="submit" name="do" value="%s" class="%s"%s>%s</button> ',
				esc_attr( $action ),
				esc_attr( $class ),
				'' === $hint ? '' : ' aria-describedby="' . esc_attr( $hint ) . '"',
				esc_html( $this->text( $action ) )
			);
		}

		/** What an administrator should know of the license, in a sentence. */
		private function sentence( Memory $memory ): string {
			return self::plain( $this->config, $memory );
		}

		/** The same for code without a page. */
		public static function plain( Config $config, Memory $memory ): string {
			$statement = $memory->statement ?? [];
			$values    = [
				'{constant}' => $config->key_constant,
				'{expires}'  => self::day( $memory ),
				'{domain}'   => $statement['bound_domain'] ?? '',
				'{host}'     => $memory->host(),
				'{here}'     => Statement::host( $config->site_url() ),
				'{since}'    => self::moment( (int) strtotime( $statement['issued_at'] ?? '' ) ),
				'{until}'    => self::moment( $memory->ends() ),
			];
			$names     = '' === $config->fixed_key() ? [ 'constant_wrong' ] : self::sentences( $config, $memory );
			$texts     = [];
			foreach ( $names as $name ) {
				$texts[] = $config->texts->get( $name, $values );
			}
			return implode( ' ', $texts );
		}

		/** @return string[] Texts names. A site that has moved asks nobody, and its license has a condition of its own besides. */
		private static function sentences( Config $config, Memory $memory ): array {
			$own     = $memory->concern();
			$is_ends = 0 === strpos( $own, 'ends_' );
			if ( 'moved' !== self::concern( $config, $memory ) ) {
				return [ $is_ends ? 'ends' : $own ];
			}
			if ( $memory->is_active() ) {
				return $is_ends ? [ 'moved', 'moved_until', 'ends' ] : [ 'moved', 'moved_until' ];
			}
			if ( Memory::CONDITION_PENDING === $own ) {
				return [ 'moved' ];
			}
			return [ 'moved', Memory::CONDITION_GRACE_OVER === $own ? 'moved_over' : $own ];
		}

		/** @param array<string, string> $values */
		private function text( string $name, array $values = [] ): string {
			$values += [
				'{constant}'  => $this->config->key_constant,
				'{installed}' => $this->config->extension->header( 'Version' ),
			];
			return $this->config->texts->get( $name, $values );
		}

		public static function moment( int $time ): string {
			return (string) wp_date( get_option( 'date_format' ) . ' ' . get_option( 'time_format' ), $time );
		}

		/** The license's last day. It is a day everywhere, so no time zone moves it. */
		public static function day( Memory $memory ): string {
			$day = strtotime( ( $memory->statement['expires'] ?? '' ) . ' UTC' );
			return $day ? (string) wp_date( get_option( 'date_format' ), $day, new \DateTimeZone( 'UTC' ) ) : '';
		}

		private function page(): string {
			return $this->config->slug . '-license';
		}

		/** The menu that the page is in. */
		private function parent(): string {
			if ( '' !== $this->config->menu_parent ) {
				return $this->config->menu_parent;
			}
			$settings = $this->in_network ? 'settings.php' : 'options-general.php';
			return $this->config->extension->is_theme() ? 'themes.php' : $settings;
		}

		public function url(): string {
			$file = preg_match( '/\.php(\?|$)/', $this->parent() ) ? $this->parent() : 'admin.php';
			$url  = $this->in_network ? network_admin_url( $file ) : admin_url( $file );
			return add_query_arg( 'page', $this->page(), $url );
		}

		private function is_here(): bool {
			return ( $_GET['page'] ?? '' ) === $this->page();
		}
	}

	/**
	 * What Tools, Site Health says of the license: a test, and what a person who gives support asks first. The license key is in neither.
	 */
	final class Site_Health {

		private Config $config;
		private License $license;
		private Updates $updates;
		private Settings_Page $page;

		public function __construct( Config $config, License $license, Updates $updates, Settings_Page $page ) {
			$this->config  = $config;
			$this->license = $license;
			$this->updates = $updates;
			$this->page    = $page;
		}

		public function hook(): void {
			add_filter( 'site_status_tests', [ $this, 'add_test' ] );
			add_filter( 'debug_information', [ $this, 'add_information' ] );
		}

		/**
		 * @param mixed $tests An array by kind, unless another plugin's filter lost it.
		 * @return array<string, mixed>
		 */
		public function add_test( $tests ): array {
			$tests = (array) $tests;

			$tests['direct'][ $this->config->name() ] = [ 'label' => $this->text( 'title' ), 'test' => [ $this, 'test' ] ];
			return $tests;
		}

		/** @return array<string, mixed> */
		public function test(): array {
			$memory  = $this->license->memory();
			$missed  = $this->updates->missed();
			$refused = $this->updates->refused();
			$is_well = in_array( Settings_Page::concern( $this->config, $memory ), [ Memory::CONDITION_ACTIVE, 'ends_30' ], true ) && '' === $refused;
			$is_risk = '' !== $refused || ( $missed['security'] ?? false );
			$says    = [ Settings_Page::plain( $this->config, $memory ), $refused ];
			if ( $missed ) {
				$says[] = $this->text( $missed['security'] ? 'missed_security' : 'missed', [ '{version}' => $missed['version'] ] );
			}
			return [
				'test'        => $this->config->name(),
				'label'       => $this->text( $is_well ? 'health_good' : 'health_bad' ),
				'status'      => $is_well ? 'good' : ( $is_risk ? 'critical' : 'recommended' ),
				'badge'       => [ 'label' => $this->config->extension->name(), 'color' => 'blue' ],
				'description' => '<p>' . esc_html( implode( ' ', array_filter( $says ) ) ) . '</p>',
				'actions'     => $this->config->has_page ? '<p>' . Settings_Page::anchor( $this->page->url(), $this->text( 'link' ) ) . '</p>' : '',
			];
		}

		/**
		 * @param mixed $information An array by section, unless another plugin's filter lost it.
		 * @return array<string, mixed>
		 */
		public function add_information( $information ): array {
			$memory    = $this->license->memory();
			$condition = $memory->condition();
			$issued_at = $memory->statement['issued_at'] ?? '';
			$fields    = [
				'status'         => [ $this->text( 'is_' . $condition ), Settings_Page::concern( $this->config, $memory ) ],
				'expires'        => [ Settings_Page::day( $memory ), $memory->statement['expires'] ?? '' ],
				'modules'        => [ implode( ', ', $memory->statement['modules'] ?? [] ), '' ],
				'site'           => [ $memory->host(), '' ],
				'site_here'      => [ Statement::host( $this->config->site_url() ), '' ],
				'server'         => [ $this->config->base_url, '' ],
				'last_answer'    => [ '' === $issued_at ? '' : Settings_Page::moment( (int) strtotime( $issued_at ) ), $issued_at ],
				'failures'       => [ (string) $memory->failures, '' ],
				'trouble'        => [ $memory->trouble, '' ],
				'next_question'  => [ ! $memory->next_question ? '' : Settings_Page::moment( $memory->next_question ), gmdate( 'c', $memory->next_question ) ],
				'release_keys'   => [ count( $this->config->release_keys() ) . ' / ' . $this->config->release_threshold, '' ],
				'php_extensions' => [ implode( ', ', array_filter( [ 'openssl', 'curl', 'sodium' ], 'extension_loaded' ) ), '' ],
			];
			$shown     = [];
			foreach ( $fields as $name => list( $value, $debug ) ) {
				if ( '' !== $value ) {
					$shown[ $name ] = [ 'label' => $this->text( $name ), 'value' => $value, 'debug' => '' === $debug ? $value : $debug ];
				}
			}
			return [ $this->config->name() => [ 'label' => $this->text( 'title' ), 'fields' => $shown ] ] + (array) $information;
		}

		/** @param array<string, string> $values */
		private function text( string $name, array $values = [] ): string {
			return $this->config->texts->get( $name, $values );
		}
	}

	/**
	 * The license on the command line of WordPress: `wp <slug> license …`.
	 */
	final class Command {

		private Config $config;
		private License $license;

		public function __construct( Config $config, License $license ) {
			$this->config  = $config;
			$this->license = $license;
		}

		/**
		 * Shows the license of this site.
		 *
		 * ## OPTIONS
		 *
		 * [--format=<format>]
		 * : `text` or `json`.
		 * ---
		 * default: text
		 * ---
		 *
		 * @param string[]              $arguments
		 * @param array<string, string> $flags
		 */
		public function status( $arguments, $flags ): void {
			$memory = $this->license->memory();
			if ( 'json' === ( $flags['format'] ?? 'text' ) ) {
				$status = [
					'condition' => $memory->condition(),
					'active'    => $memory->is_active(),
					'expires'   => $memory->statement['expires'] ?? null,
					'modules'   => $memory->statement['modules'] ?? [],
					'answered'  => $memory->statement['issued_at'] ?? null,
					'confirmed' => $memory->grants() ? $memory->statement['issued_at'] : null,
					'trouble'   => $memory->trouble,
				];
				\WP_CLI::line( (string) wp_json_encode( $status ) );
				return;
			}
			\WP_CLI::line( Settings_Page::plain( $this->config, $memory ) );
		}

		/**
		 * Activates a license key.
		 *
		 * ## OPTIONS
		 *
		 * [<key>]
		 * : The license key. Without it, the key is read from standard input, where no history keeps it.
		 *
		 * @param string[] $arguments
		 */
		public function activate( $arguments ): void {
			$read = $this->config->read_key( trim( $arguments[0] ?? (string) fgets( STDIN ) ) );
			$this->tell( isset( $read['key'] ) ? $this->license->activate( $read['key'] ) : $read['error'] );
		}

		/**
		 * Asks the license server now.
		 */
		public function check(): void {
			$this->tell( $this->license->validate() );
		}

		/**
		 * Deactivates the license on this site, so that it can be used on another one.
		 */
		public function deactivate(): void {
			$this->tell( $this->license->deactivate() );
		}

		/**
		 * Takes the license along to the address that this site has now: the site has moved.
		 */
		public function move(): void {
			$this->tell( $this->license->move() );
		}

		/**
		 * Activates the license for the address that this site has now: the site is a copy.
		 */
		public function copy(): void {
			$this->tell( $this->license->copy() );
		}

		/**
		 * Takes the license back that was moved to another site by mistake, in the last three days.
		 *
		 * @subcommand take-back
		 */
		public function take_back(): void {
			$this->tell( $this->license->take_back() );
		}

		/**
		 * Removes the license from this site without asking the license server.
		 */
		public function remove(): void {
			$this->tell( $this->license->remove() );
		}

		private function tell( string $outcome ): void {
			$memory = $this->license->memory();
			$text   = 'moved' === $outcome || $outcome === $memory->condition()
				? Settings_Page::plain( $this->config, $memory )
				: $this->config->texts->get( $outcome, [ '{constant}' => $this->config->key_constant, '{reason}' => $memory->trouble, '{host}' => $memory->host() ] );
			in_array( $outcome, [ 'ok', 'deactivated', 'removed' ], true ) ? \WP_CLI::success( $text ) : \WP_CLI::error( $text );
		}
	}

	/**
	 * Every sentence a person may read, but for the one that says that this file is missing.
	 */
	final class All_Texts {

		/** @return array<string, string> By their names. */
		public static function in( string $d ): array {
			return [
				// The page.
				'title'              => __( '{plugin} License', $d ),
				'menu'               => __( '{plugin} License', $d ),
				'link'               => __( 'License', $d ),
				'status'             => __( 'Status', $d ),
				'modules'            => __( 'Covers', $d ),
				'expires'            => __( 'Valid through', $d ),
				'last_confirmed'     => __( 'Last confirmed', $d ),
				'last_answer'        => __( 'Last answer', $d ),
				'trouble'            => __( 'Last attempt', $d ),
				'update'             => __( 'Update', $d ),
				'key'                => __( 'License key', $d ),
				'key_hint'           => __( 'Five groups of five letters and digits. Dashes, blanks and small letters do not matter.', $d ),
				'key_hint_foreign'   => __( 'Exactly as it was sent to you.', $d ),
				'activate'           => __( 'Activate', $d ),
				'replace'            => __( 'Use another key', $d ),
				'check'              => __( 'Check now', $d ),
				'moved_question'     => __( 'Has the site moved?', $d ),
				'move'               => __( 'The site has moved here', $d ),
				'move_hint'          => __( 'Choose this if the site has a new address and the old one is gone, or soon will be. The license comes along, and {host} loses it.', $d ),
				'copy'               => __( 'This is a copy', $d ),
				'copy_hint'          => __( 'Choose this if {host} goes on, and this is a second site, such as one for tests. The license stays there, and this site counts as another one.', $d ),
				'take_back_question' => __( 'Was that a mistake?', $d ),
				'take_back'          => __( 'Use the license here again', $d ),
				'take_back_hint'     => __( 'If somebody said on a copy of this site that the site had moved, take the license back here. That works once, for three days, and the other site loses it.', $d ),
				'remove'             => __( 'Deactivate on this site…', $d ),
				'remove_question'    => __( 'Deactivate the license on this site? It can then be used on another site. {plugin} gets no updates here any more, and what the license covers stops working here.', $d ),
				'remove_really'      => __( 'Deactivate on this site', $d ),
				'remove_only'        => __( 'Remove it here all the same', $d ),
				'back'               => __( 'Go back to an earlier version…', $d ),
				'back_title'         => __( 'Go back to an earlier version', $d ),
				'back_hint'          => __( 'Please make a backup first. Data that version {installed} has changed stays changed. After that, automatic updates wait for a version that is newer than {installed}.', $d ),
				'back_really'        => __( 'Go back', $d ),
				'cancel'             => __( 'Cancel', $d ),
				'renew'              => __( 'Renew the license', $d ),
				'more'               => __( 'More sites or features', $d ),
				'upgrade'            => __( 'Upgrade the license', $d ),
				'account'            => __( 'Manage your licenses', $d ),
				'forbidden'          => __( 'Sorry, you are not allowed to change this license.', $d ),
				'channel'            => __( 'Releases', $d ),
				'channel_stable'     => __( 'Stable releases only', $d ),
				'channel_rc'         => __( 'Release candidates, too', $d ),
				'channel_beta'       => __( 'Betas, too', $d ),
				'channel_alpha'      => __( 'Alphas, too', $d ),
				'channel_hint'       => __( 'What is not stable may break the site. Please try it on a copy first.', $d ),
				'channel_fixed'      => __( '(set by the code of this site)', $d ),
				'change_channel'     => __( 'Change', $d ),
				'constant_set'       => __( 'Set in wp-config.php ({constant}).', $d ),
				'constant_used'      => __( 'Set in wp-config.php ({constant}); it ends in {end}.', $d ),
				'constant_wrong'     => __( 'What {constant} has in wp-config.php is not a license key. Please compare it with the one you were sent.', $d ),

				// The license's condition in a word or two.
				'is_no_key'          => __( 'No license', $d ),
				'is_pending'         => __( 'Not confirmed yet', $d ),
				'is_active'          => __( 'Active', $d ),
				'is_grace'           => __( 'Active, not confirmed at the moment', $d ),
				'is_grace_over'      => __( 'Not confirmed', $d ),
				'is_bound_elsewhere' => __( 'In use on another site', $d ),
				'is_unknown_license' => __( 'Unknown key', $d ),
				'is_expired'         => __( 'Expired', $d ),
				'is_suspended'       => __( 'Suspended', $d ),
				'is_revoked'         => __( 'Revoked', $d ),
				'is_invalid'         => __( 'Not valid', $d ),

				// What the license's condition is.
				'no_key'             => __( 'Enter your license key to get updates and support.', $d ),
				'pending'            => __( 'Your license key is saved. The license server could not be reached yet; it is asked again automatically.', $d ),
				'active'             => __( 'The license is active on this site.', $d ),
				'ends'               => __( 'The license is valid through {expires}. Renew it in time to keep getting updates.', $d ),
				'grace'              => __( 'The license server has not answered since {since}. Everything works until {until}, and the server is asked again automatically.', $d ),
				'grace_over'         => __( 'The license could not be confirmed since {since} and counts as not active now. The server is asked again automatically.', $d ),
				'moved'              => __( 'This license was activated on {host}, and this site is {here} now. Please say on the license page whether the site has moved or is a copy.', $d ),
				'moved_until'        => __( 'Until you do, the license server is not asked, and the license is active here until {until} only.', $d ),
				'moved_over'         => __( 'Until you do, the license server is not asked. The license could not be confirmed since {since} and counts as not active now.', $d ),
				'bound_elsewhere'    => __( 'This license is in use on another site ({domain}). Deactivate it there, on the license page of that site, or use another license. If you do not have that site any more, ask the vendor to release it.', $d ),
				'unknown_license'    => __( 'This license key is not known. Please compare it with the one you were sent.', $d ),
				'expired'            => __( 'This license has expired ({expires}). Renew it to get updates again.', $d ),
				'suspended'          => __( 'This license is suspended. Please contact the vendor.', $d ),
				'revoked'            => __( 'This license was revoked. Please contact the vendor.', $d ),
				'invalid'            => __( 'This license is not valid. Please contact the vendor.', $d ),

				// What came of a button.
				'ok'                 => __( 'The license is active on this site.', $d ),
				'no_answer'          => __( 'The license server gave no answer that can be trusted. Nothing was lost; please try again later.', $d ),
				'not_before'         => __( 'The license server asked to wait a little. Please try again later.', $d ),
				'not_saved'          => __( 'WordPress could not save the license in its database, so nothing was changed. Please try again, or ask whoever hosts the site.', $d ),
				'busy'               => __( 'The license is being checked at this moment. Please try again in a minute.', $d ),
				'deactivated'        => __( 'The license was removed from this site. It can be used on another site now.', $d ),
				'removed'            => __( 'The license was removed from this site. If another site cannot use it, enter the key here again and deactivate it while the license server answers, or ask the vendor to release this site.', $d ),
				'not_moved'          => __( 'The license is still on {host}, and nothing was changed: {reason} You can try again here later. If you cannot open {host} any more, ask the vendor to move the license.', $d ),
				'not_taken_back'     => __( 'The license stays on the other site, and nothing was changed. It can be taken back for three days after a move, and once. Deactivate it on the other site, or ask the vendor.', $d ),
				'not_released'       => __( 'The license server did not release this site, so the license is still here: {reason} Please try again, or ask the vendor to release the site.', $d ),
				'channel_changed'    => __( 'This site gets these releases from now on.', $d ),
				'channel_left'       => __( 'This site gets stable releases from now on. Version {installed} stays until a newer one is out, unless you go back to an earlier version below.', $d ),
				'gone_back'          => __( 'The earlier version is installed. Automatic updates wait for a version that is newer than {installed}.', $d ),
				'back_none'          => __( 'There is no earlier version that this site can go back to.', $d ),
				'back_refused'       => __( 'The license server offers no earlier version at the moment: {reason}', $d ),
				'back_needs_wordpress' => __( 'Version {version} needs WordPress {requires}.', $d ),
				'back_failed'        => __( 'WordPress did not install version {version}. Please check which version of {plugin} is installed.', $d ),
				'key_missing'        => __( 'Please enter a license key.', $d ),
				'key_malformed'      => __( 'A license key has five groups of five letters or digits.', $d ),
				'key_mistyped'       => __( 'There is a typing error in the license key.', $d ),
				'key_unreadable'     => __( 'This is not a license key. Please compare it with the one you were sent.', $d ),
				'key_is_fixed'       => __( 'The license key is set in wp-config.php ({constant}). Please change it there.', $d ),
				'group'              => __( 'Please look at this group again: {groups}.', $d ),
				'groups'             => __( 'Please look at these groups again: {groups}.', $d ),

				// Site Health, and the guide to a privacy policy.
				'health_good'        => __( 'The license of {plugin} is active', $d ),
				'health_bad'         => __( 'The license of {plugin} needs attention', $d ),
				'site'               => __( 'Activated on', $d ),
				'site_here'          => __( 'This site', $d ),
				'server'             => __( 'License server', $d ),
				'failures'           => __( 'Questions without an answer', $d ),
				'next_question'      => __( 'Next question', $d ),
				'release_keys'       => __( 'Release keys, and how many must sign', $d ),
				'php_extensions'     => __( 'PHP extensions', $d ),
				'privacy'            => __( 'The license of {plugin} is checked by its vendor\'s server ({server}). About once a day, and when an administrator asks, this site sends the license key, its own address, the versions of {plugin}, WordPress and PHP, and the ID of the copy that it was given. The server also sees the IP address of this site. No data of visitors or users is sent.', $d ),

				// Updates.
				'missed'             => __( 'Version {version} is out.', $d ),
				'missed_security'    => __( 'Version {version} is out and mends the security of {plugin}.', $d ),
				// The security release may lie between the installed version and the latest.
				'security'           => __( 'The update mends the security of {plugin}.', $d ),
				'fled'               => __( 'You went back from version {fled}, so automatic updates wait for a newer one. You can update now.', $d ),
				'for_expired'        => __( 'It installs although the license has expired.', $d ),
				'held_until'         => __( 'Automatic updates install it here from {until} on. You can update now.', $d ),
				'held'               => __( 'Automatic updates do not install it here yet. You can update now.', $d ),
				'unreadable'         => __( 'The license server\'s answer about updates cannot be used ({reason}). Please tell the vendor.', $d ),
				'needs_wordpress'    => __( 'Version {version} is out, and needs WordPress {requires}.', $d ),
				'needs_php'          => __( 'The update needs PHP {requires}.', $d ),
				'needs_plugins'      => __( 'Version {version} needs plugins that are not active here: {plugins}. Automatic updates wait for them.', $d ),
				'no_update'          => __( 'There is no update without an active license. {reason}', $d ),
				'archive_refused'    => __( 'The update was refused: its archive does not have {plugin} in one folder.', $d ),
				'archive_other'      => __( 'The update was refused: its archive holds something else ({found}) than {plugin}.', $d ),
				'archive_older'      => __( 'The update was refused: its archive has version {found}, and version {version} is installed.', $d ),
				'archive_version'    => __( 'The update was refused: its archive has version {found}, and version {version} was offered.', $d ),
				'download_unknown'   => __( 'The license server names no download for this site at the moment. Please try again later.', $d ),
				'download_denied'    => __( 'The license server refused the download: {reason}', $d ),
				'download_no_answer' => __( 'The license server gave no usable answer about the download ({reason}). Please try again later.', $d ),
				'download_redirect'  => __( 'The download was refused: its address leads to one without https, or through too many others.', $d ),
				'download_refused'   => __( 'The download was refused: it is not the one the license server named.', $d ),

				// Releases that the vendor's people sign.
				'release_refused'    => __( 'The update to version {version} was refused, because nothing proves that it comes from the vendor of {plugin}. {reason} Nothing was installed, and version {installed} goes on working. Please tell the vendor, through an address that you know from elsewhere, and pass this on: {report}', $d ),
				'release_unsigned'   => __( 'The license server sent no signatures with it.', $d ),
				'release_signature'  => __( 'It needs 1 good signature of the vendor\'s release keys, and has none.', $d ),
				'release_signatures' => __( 'It needs {needed} good signatures of the vendor\'s release keys, and has {good}.', $d ),
				'release_unreadable' => __( 'What was signed is not written as a release statement must be.', $d ),
				'release_other'      => __( 'What was signed is another release ({found}).', $d ),
				'release_older'      => __( 'It is not newer than what is installed.', $d ),
				'release_size'       => __( 'Its download has another size than the signed package.', $d ),
				'release_mark'       => __( 'Its download does not have the mark of this site where the signed package has room for one.', $d ),
				'release_bytes'      => __( 'Its download is not the signed package.', $d ),
				'release_swapped'    => __( 'Its file was changed on this site after it had been checked.', $d ),
				'release_files'      => __( 'The unpacked files are not those that were signed.', $d ),
				'release_way'        => __( 'Something else on this site downloaded or unpacked it, or changed where it comes from.', $d ),
			];
		}
	}

endif;
