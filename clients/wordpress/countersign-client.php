<?php
/**
 * The countersign client for WordPress: licenses and updates of one plugin or theme, in two files.
 *
 * Copy both files into your plugin, beside each other, and change ONE line in each: the namespace below, to one of your
 * plugin's own. A name of your own is what lets any two plugins on a site carry any two versions of this client. A plugin
 * whose author forgot gets the copy that was loaded first, and nothing breaks. Everything that is stored or hooked is named
 * after your plugin's slug. What is said here of plugins holds for themes.
 *
 *     require_once __DIR__ . '/countersign-client.php';
 *     $license = new \Acme\Forms\License\Client( [
 *         'base_url'    => 'https://licenses.example.com',
 *         'slug'        => 'acme-forms',
 *         'plugin_file' => __FILE__,
 *         'public_keys' => [ '-----BEGIN PUBLIC KEY-----…' ],
 *     ] );
 *     $license->run();
 *
 * A theme has these lines in a file that its functions.php includes, with `'theme_folder' => __DIR__` in the place of plugin_file.
 *
 * This file is loaded on every page. Read it from top to bottom: what your plugin calls (Client), what loads the other file
 * (Loader), what your plugin says (Config), what WordPress calls it (Extension), what is known (Stored_License and its
 * Memory), what the server signed (Statement), what a person reads (Texts), and what a license key is (License_Key). The other file, countersign-client-admin.php, has the
 * rest. It is loaded in wp-admin and WP-CLI, and elsewhere only when WordPress looks for updates, installs one, or runs the
 * client's event.
 *
 * One rule comes first: ONLY A SIGNED ANSWER CHANGES ANYTHING. Whatever else comes back is no answer, and the last
 * signed one counts until its grace period is over. A second one holds where the plugin pins release keys: ONLY WHAT PEOPLE
 * SIGNED IS UNPACKED, even if an attacker has the server.
 *
 * PHP 7.4 or newer with OpenSSL, WordPress 6.1 or newer.
 *
 * @version 0.1.0
 * @license MIT OR Apache-2.0
 */

namespace Countersign\Client;

defined( 'ABSPATH' ) || exit;

if ( ! class_exists( __NAMESPACE__ . '\Client', false ) ) :

	/**
	 * What your plugin calls. The questions cost one option read and never a request.
	 */
	final class Client {

		/** The version of both files. */
		public const VERSION = '0.1.0';

		private Config $config;
		private Stored_License $stored;
		private Loader $loader;

		/** @param array<string, mixed> $settings See Config::DEFAULTS. */
		public function __construct( array $settings ) {
			$this->config = new Config( $settings );
			$this->stored = new Stored_License( $this->config );
			$this->loader = new Loader( $this->config, $this->stored );
		}

		/** Hooks everything up; call it once, while your plugin is loaded. */
		public function run(): void {
			$this->loader->hook();
			$this->stored->hook();
		}

		/**
		 * Activates a license key, as the button of the license page does.
		 *
		 * @return string What came of it: `ok`, or why not, by its name in Texts.
		 */
		public function activate( string $typed ): string {
			$read = $this->config->read_key( $typed );
			if ( ! isset( $read['key'] ) ) {
				return $read['error'];
			}
			if ( $this->stored->is_elsewhere() ) {
				return 'moved';
			}
			$license = $this->loader->license();
			return $license ? $license->activate( $read['key'] ) : Loader::INCOMPLETE;
		}

		/**
		 * Deactivates the license on this site, as the button of the license page does: the server gives the site's place back,
		 * and the site forgets the license.
		 *
		 * @return string `deactivated`; `removed` where the server had nothing to give back; or why not, by its name in Texts.
		 */
		public function deactivate(): string {
			$license = $this->loader->license();
			return $license ? $license->deactivate() : Loader::INCOMPLETE;
		}

		/**
		 * Forgets the license without asking the server, so that the site keeps its place there.
		 *
		 * @return string `removed`, or why not, by its name in Texts.
		 */
		public function remove(): string {
			if ( $this->stored->is_elsewhere() ) {
				return 'moved';
			}
			$license = $this->loader->license();
			return $license ? $license->remove() : Loader::INCOMPLETE;
		}

		/**
		 * Takes the license along to the host that the site has now, and gives the place of the old host back. Call it only where
		 * a person in wp-admin says that the site has moved: the sender of a request may have chosen that host.
		 *
		 * @return string What came of it: `ok`, or why not, by its name in Texts.
		 */
		public function move(): string {
			$license = $this->loader->license();
			return $license ? $license->move() : Loader::INCOMPLETE;
		}

		/**
		 * Activates the license for the host that the site has now, which takes a place of its own. Call it only where a person in
		 * wp-admin says that the site is a copy.
		 *
		 * @return string What came of it: `ok`, or why not, by its name in Texts.
		 */
		public function copy(): string {
			$license = $this->loader->license();
			return $license ? $license->copy() : Loader::INCOMPLETE;
		}

		/**
		 * Takes the license back that was moved to another site by mistake, in the last three days. Call it only where a person in wp-admin
		 * says so.
		 *
		 * @return string What came of it: `ok`, or why not, by its name in Texts.
		 */
		public function take_back(): string {
			$license = $this->loader->license();
			return $license ? $license->take_back() : Loader::INCOMPLETE;
		}

		/** Whether the license is for another host than this request's, so that nothing changes until a person moves it. */
		public function is_elsewhere(): bool {
			return $this->stored->is_elsewhere();
		}

		/** The license's last day as `YYYY-MM-DD`; empty where no signed answer named one. */
		public function expires(): string {
			return $this->stored->memory()->statement['expires'] ?? '';
		}

		/** Whether a signed answer says that the license is active, and its grace period is not over. */
		public function is_active(): bool {
			return $this->stored->memory()->is_active();
		}

		/** Whether the active license covers a module. */
		public function has_module( string $module ): bool {
			$memory  = $this->stored->memory();
			$modules = $memory->statement['modules'] ?? [];
			return $memory->is_active() && in_array( $module, (array) $modules, true );
		}

		/** Whether the active license covers a feature of a module. */
		public function has_feature( string $module, string $feature ): bool {
			$memory   = $this->stored->memory();
			$features = $memory->statement['features'][ $module ] ?? [];
			return $memory->is_active() && in_array( $feature, (array) $features, true );
		}

		/** One word for the license's condition: one of the CONDITION constants of Memory, or a statement's `code`. */
		public function condition(): string {
			return $this->stored->memory()->condition();
		}

		/**
		 * Gives the site's place back and removes all that was stored. Call it from your plugin's uninstall.php, or from the
		 * function that it gave to register_uninstall_hook().
		 */
		public static function uninstall( string $slug ): void {
			Loader::load() && ( new Uninstallation( $slug ) )->run();
		}
	}

	/**
	 * Loads the other file where something is done, and says what to do where it is not there.
	 */
	final class Loader {

		/** What comes of everything that needs the other file, where it cannot be used. */
		public const INCOMPLETE = 'incomplete';

		private const FILE = __DIR__ . '/countersign-client-admin.php';

		/** Why the other file cannot be used; empty where it can, null before it was needed. */
		private static ?string $flaw = null;

		private Config $config;
		private Stored_License $stored;
		private ?License $license = null;
		private bool $is_managing = false;

		public function __construct( Config $config, Stored_License $stored ) {
			$this->config = $config;
			$this->stored = $stored;
		}

		/**
		 * Loads the other file, or plans it for when it is needed.
		 *
		 * Any request may need it: an application that looks after many sites updates plugins in its own, and WP-Cron may run at the
		 * end of a visitor's page.
		 */
		public function hook(): void {
			'' === $this->config->key_from || add_action( 'init', [ $this, 'take_over' ] );
			if ( ( is_admin() && ! wp_doing_ajax() ) || ( defined( 'WP_CLI' ) && \WP_CLI ) ) {
				$this->manage();
				return;
			}
			$hooks = [
				$this->config->name(),
				$this->config->look_hook(),
				'auto_update_' . $this->config->extension->type,
				'plugins_api',
				'upgrader_pre_download',
				'upgrader_source_selection',
				'site_status_tests',
				'debug_information',
			];
			foreach ( $hooks as $hook ) {
				add_filter( $hook, [ $this, 'manage' ], PHP_INT_MIN );
			}
			// Visitors use admin-ajax.php, too; what it does with plugins and themes is for users who may see their pages.
			wp_doing_ajax() && add_action( 'admin_init', [ $this, 'manage_for_administrators' ], PHP_INT_MIN );
		}

		/**
		 * Hooks up what asks the server, installs updates and shows pages.
		 *
		 * @param mixed $value What a filter gives; it stays.
		 * @return mixed
		 */
		public function manage( $value = null ) {
			if ( $this->is_managing ) {
				return $value;
			}
			$this->is_managing = true;

			$license = $this->license();
			if ( ! $license ) {
				$this->do_without();
				return $value;
			}
			$license->hook();
			$updates = new Updates( $this->config, $license );
			$updates->hook();
			$page = new Settings_Page( $this->config, $license, $updates );
			$page->hook();
			( new Site_Health( $this->config, $license, $updates, $page ) )->hook();
			if ( defined( 'WP_CLI' ) && \WP_CLI ) {
				\WP_CLI::add_command( $this->config->slug . ' license', new Command( $this->config, $license ) );
			}
			WP_DEBUG && Config_Check::complain( $this->config );
			return $value;
		}

		public function manage_for_administrators(): void {
			current_user_can( $this->config->extension->is_theme() ? 'switch_themes' : 'activate_plugins' ) && $this->manage();
		}

		/** Takes over the key of the plugin's former client on whichever page comes first. */
		public function take_over(): void {
			$license = $this->stored->may_take_over() ? $this->license() : null;
			$license && $license->take_over();
		}

		/** What can be done with the license; null where the other file cannot be used. */
		public function license(): ?License {
			if ( ! $this->license && self::load() ) {
				$this->license = new License( $this->config );
			}
			return $this->license;
		}

		/** Loads the other file, once. */
		public static function load(): bool {
			self::$flaw = self::$flaw ?? self::include_file();
			return '' === self::$flaw;
		}

		/** @return string Why the file cannot be used; empty where it can. */
		private static function include_file(): string {
			if ( ! is_readable( self::FILE ) ) {
				return 'it is not there';
			}
			try {
				// Not include_once: an autoloader may have included it before this file, and then it did nothing. Of half a file, PHP
				// 7.4 says more than the exception does.
				@include self::FILE;
			} catch ( \Throwable $reason ) {
				return $reason->getMessage();
			}
			return class_exists( License::class, false ) ? '' : 'it has another version or another namespace';
		}

		/** Says what is missing, and keeps what only the other file can check from being installed. */
		private function do_without(): void {
			add_action( 'admin_notices', [ $this, 'notify' ] );
			add_action( 'network_admin_notices', [ $this, 'notify' ] );
			// SECURITY: without the other file nothing looks at signatures.
			foreach ( $this->config->pins_releases ? [ 'upgrader_pre_download', 'upgrader_source_selection' ] : [] as $hook ) {
				add_filter( $hook, [ $this, 'refuse' ], PHP_INT_MAX, 4 );
			}
			_doing_it_wrong( __CLASS__, esc_html( $this->config->slug . ': ' . basename( self::FILE ) . ' cannot be used: ' . self::$flaw ), '0.1.0' );
		}

		public function notify(): void {
			if ( current_user_can( $this->config->capability ) ) {
				printf(
					'<div class="notice notice-error"><p><strong>%s</strong> %s</p></div>',
					esc_html( $this->config->extension->name() . ':' ),
					esc_html( $this->sentence() )
				);
			}
		}

		/**
		 * Refuses an update of this plugin.
		 *
		 * @param mixed                $reply    What was downloaded or unpacked until now.
		 * @param mixed                $package
		 * @param mixed                $upgrader
		 * @param array<string, mixed> $extra
		 * @return mixed
		 */
		public function refuse( $reply, $package, $upgrader, $extra = [] ) {
			$is_ours = $this->config->extension->is_in( $extra ) || Config::is_name_of_package( $package, $this->config->slug );
			return $is_ours && ! is_wp_error( $reply ) ? new \WP_Error( 'countersign_' . self::INCOMPLETE, esc_html( $this->sentence() ) ) : $reply;
		}

		private function sentence(): string {
			return $this->config->texts->get( self::INCOMPLETE, [ '{file}' => $this->config->extension->relative( self::FILE ) ] );
		}
	}

	/**
	 * What your plugin says about itself, completed and checked.
	 */
	final class Config {

		private const DEFAULTS = [
			// Where `countersign serve` is reached: https, or a loopback address.
			'base_url'    => '',
			// The SSH keys (`ssh-ed25519 AAAA… anna@acme`) of the people who sign releases, and how many of them must have signed
			// one before it is installed. Without keys, the server alone says what is installed.
			'release_keys'      => [],
			'release_threshold' => 1,
			// The plugin's name on the server, and the prefix of all that is stored here.
			'slug'        => '',
			// Your plugin's main file, or your theme's folder: one of both.
			'plugin_file'  => '',
			'theme_folder' => '',
			// The public keys (PEM) that may sign; more than one while you change keys.
			'public_keys' => [],
			// Your plugin's text domain, for the sentences in Texts.
			'text_domain' => 'default',
			// Sentences of your own by their names in Texts, or a function that returns them.
			'texts'       => [],
			// In a multisite: one license for the network (true), or one for each of its sites (false).
			'network'     => true,
			// Who may change the license; a network's license needs manage_network_options.
			'capability'  => 'manage_options',
			// The UUID of the package this site was given; empty for the one in the plugin's build-id.php.
			'build_id'    => '',
			// Where a customer manages licenses, if it is not the page of the server, and where one is renewed: https.
			'account_url' => '',
			'renew_url'   => '',
			// What modules are called: names by module.
			'names'       => [],
			// A constant of wp-config.php that has the license key, if a site defines it.
			'key_constant' => '',
			// True where the server takes the keys of another system, too, because your customers have such keys.
			'foreign_keys' => false,
			// Where your plugin's former client kept the license key: the name of its option, or a function that returns the key.
			'key_from'     => '',
			// The menu that has the license page, by its file or the slug of its page; empty for Settings, or a theme's Appearance.
			'menu_parent' => '',
			// False where your plugin shows a page of its own.
			'page'        => true,
			// False where a validation shall not say which versions of WordPress and PHP the site has, and for which plugin it asks.
			'platform'    => true,
			// Where releases are given out step by step: `first` or `last`; empty for the site's own turn. A constant of wp-config.php
			// that says so instead, if a site defines it.
			'wave'          => '',
			'wave_constant' => '',
			// Which pre-releases a site may choose: `rc`, `beta`, `alpha`. And a constant of wp-config.php that names the channel instead.
			'channels'         => [],
			'channel_constant' => '',
		];

		public string $base_url;
		public string $slug;
		public Extension $extension;
		/** @var string[] */
		public array $public_keys;
		public int $release_threshold;
		/** Whether the plugin pins release keys, be they readable or not. */
		public bool $pins_releases;
		public bool $network;
		public string $capability;
		public string $account_url;
		public string $renew_url;
		public string $key_constant;
		public bool $foreign_keys;
		/** @var string|callable(): mixed Empty where there is no former client. */
		public $key_from;
		public string $menu_parent;
		public bool $has_page;
		public bool $tells_platform;
		/** @var array<string, string> */
		private array $names;
		/** @var array<string, mixed> As the plugin gave them. */
		public array $settings;
		public Texts $texts;
		/** @var Release_Key[]|null */
		private ?array $release_keys = null;
		/** Null until it was read. */
		private ?string $build_id;

		/** @param array<string, mixed> $settings */
		public function __construct( array $settings ) {
			$settings += self::DEFAULTS;

			$this->settings    = $settings;
			$this->base_url    = rtrim( (string) $settings['base_url'], '/' );
			$this->slug        = (string) $settings['slug'];
			$this->extension   = '' === (string) $settings['theme_folder']
				? Extension::plugin( (string) $settings['plugin_file'], $this->slug )
				: Extension::theme( (string) $settings['theme_folder'] );
			$this->public_keys = array_values( (array) $settings['public_keys'] );

			$lines                   = (array) $settings['release_keys'];
			$this->release_threshold = max( 1, (int) $settings['release_threshold'] );
			// SECURITY: a key that cannot be read is a key, too. Without this, a typing error would let everything in.
			$this->pins_releases = [] !== $lines;

			$this->network     = is_multisite() && $settings['network'];
			$this->capability  = $this->network ? 'manage_network_options' : (string) $settings['capability'];
			$this->build_id    = '' === (string) $settings['build_id'] ? null : (string) $settings['build_id'];
			$this->account_url = self::page_address( $settings['account_url'] );
			$this->renew_url   = self::page_address( $settings['renew_url'] );
			$this->names       = (array) $settings['names'];

			$this->key_constant = (string) $settings['key_constant'];
			$this->foreign_keys = (bool) $settings['foreign_keys'];
			$this->key_from     = is_string( $settings['key_from'] ) || is_callable( $settings['key_from'] ) ? $settings['key_from'] : '';
			$this->menu_parent  = (string) $settings['menu_parent'];
			$this->has_page     = (bool) $settings['page'];
			$this->tells_platform = (bool) $settings['platform'];
			$this->texts        = new Texts( $settings['texts'], (string) $settings['text_domain'], $this->name() . '_texts', $this->extension );
		}

		/** @return Release_Key[] Those that can be read. */
		public function release_keys(): array {
			if ( null === $this->release_keys ) {
				$lines              = (array) $this->settings['release_keys'];
				$this->release_keys = array_values( array_filter( array_map( [ Release_Key::class, 'read' ], $lines ) ) );
			}
			return $this->release_keys;
		}

		/** What all that is stored and hooked for a plugin is called. */
		public static function name_for( string $slug ): string {
			return 'countersign_' . $slug;
		}

		public function name(): string {
			return self::name_for( $this->slug );
		}

		/** The filter in which WordPress asks for updates: the host is that of the header's `Update URI`. */
		public function look_hook(): string {
			return 'update_' . $this->extension->type . 's_' . wp_parse_url( $this->base_url, PHP_URL_HOST );
		}

		/** The placeholder for a package that the server hosts. Only this client can download it. */
		public static function name_of_package( string $slug, string $version ): string {
			return "countersign:$slug/$version";
		}

		/**
		 * Whether this is the name of a package of this plugin, in whichever version.
		 *
		 * @param mixed $package
		 */
		public static function is_name_of_package( $package, string $slug ): bool {
			return is_string( $package ) && 0 === strpos( $package, self::name_of_package( $slug, '' ) );
		}

		/** What the meta is called that says which notice a user has dismissed: one for the network, or one for each site. */
		public static function name_of_dismissed( string $slug, bool $network ): string {
			global $wpdb;
			return ( $network ? '' : $wpdb->get_blog_prefix() ) . self::name_for( $slug ) . '_dismissed';
		}

		/** @param mixed $url */
		private static function page_address( $url ): string {
			return is_string( $url ) && self::is_safe( $url ) ? $url : '';
		}

		/**
		 * The key that wp-config.php sets: null where it sets none, empty where it is no license key.
		 */
		public function fixed_key(): ?string {
			$value = '' !== $this->key_constant && defined( $this->key_constant ) ? constant( $this->key_constant ) : null;
			if ( null === $value || '' === $value || false === $value ) {
				return null;
			}
			return $this->read_key( is_string( $value ) ? $value : '?' )['key'] ?? '';
		}

		/**
		 * Reads what a person typed, as License_Key::read does, in the forms that this plugin takes.
		 *
		 * @return array{key?: string, error?: string, groups?: int[]}
		 */
		public function read_key( string $typed ): array {
			return License_Key::read( $typed, $this->foreign_keys );
		}

		/** The key that the plugin's former client kept; empty where it kept none that this plugin takes. */
		public function former_key(): string {
			try {
				$value = is_string( $this->key_from ) ? $this->former_option( $this->key_from ) : ( $this->key_from )();
			} catch ( \Throwable $error ) {
				// What another client left is not worth a broken site.
				$value = null;
			}
			// What WordPress serialized twice has only signs that a key may have.
			return is_string( $value ) && ! is_serialized( $value ) ? $this->read_key( $value )['key'] ?? '' : '';
		}

		/** @return mixed */
		private function former_option( string $name ) {
			if ( ! $this->network ) {
				return get_option( $name );
			}
			// SECURITY: no other site of the network says which license the network has.
			$value = get_site_option( $name );
			return false === $value ? get_blog_option( get_main_site_id(), $name ) : $value;
		}

		/** The UUID that the server put into this site's package; empty where it put none. */
		public function build_id(): string {
			if ( null === $this->build_id ) {
				$file = $this->extension->path . '/build-id.php';
				$text = is_file( $file ) ? (string) file_get_contents( $file, false, null, 0, KB_IN_BYTES ) : '';
				// Read and not included: somebody may have edited it. The zeros stand in a package that was given to nobody.
				$uuid           = preg_match( "/^return '([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})';/m", $text, $found ) ? $found[1] : '';
				$this->build_id = '' === trim( $uuid, '0-' ) ? '' : $uuid;
			}
			return $this->build_id;
		}

		/** What people call a module. */
		public function name_of( string $module ): string {
			return (string) ( $this->names[ $module ] ?? ucwords( str_replace( [ '-', '_' ], ' ', $module ) ) );
		}

		/** The address of this site that requests to the server have. */
		public function site_url(): string {
			// The option and not home_url(), which plugins for many languages change with the page.
			return $this->network ? network_home_url() : (string) get_option( 'home' );
		}

		/**
		 * Whether this request came under another host than the license was activated on.
		 *
		 * SECURITY: where wp-config.php takes WP_HOME from HTTP_HOST, the sender of a request chooses the site's address. Only a
		 * person in wp-admin may change which host the license is for. A key that was never activated by a person, as one of
		 * wp-config.php, is for the host that WordPress was installed with, or that an administrator uses.
		 */
		public function is_elsewhere( Memory $memory ): bool {
			$here = Statement::host( $this->site_url() );
			if ( '' !== $memory->host() ) {
				return $memory->host() !== $here;
			}
			// The stored address: get_option() would give what wp-config.php says instead.
			$installed = (string) ( wp_load_alloptions()['home'] ?? '' );
			return ! $this->network && Statement::host( $installed ) !== $here
				&& ! ( defined( 'WP_CLI' ) && \WP_CLI )
				&& ! ( is_admin() && current_user_can( $this->capability ) );
		}

		/** Whether an address is https, or does not leave this machine. */
		public static function is_safe( string $url ): bool {
			$scheme   = strtolower( (string) wp_parse_url( $url, PHP_URL_SCHEME ) );
			$host     = strtolower( trim( (string) wp_parse_url( $url, PHP_URL_HOST ), '[]' ) );
			$loopback = preg_match( '/^(127(\.\d{1,3}){3}|::1|([a-z0-9-]+\.)*localhost)$/D', $host );
			return '' !== $host && ( 'https' === $scheme || ( 'http' === $scheme && $loopback ) );
		}
	}

	/**
	 * The plugin or theme that carries this client, as WordPress names it. Most names of WordPress differ by one word only:
	 * update_plugins and update_themes, auto_update_plugin and auto_update_theme.
	 */
	final class Extension {

		/** `plugin` or `theme`. */
		public string $type;
		/** A plugin's main file (`acme-forms/acme-forms.php`), or a theme's stylesheet (`acme-shop`). */
		public string $id;
		/**
		 * Its folder's name, whatever its name on the server. Where an automatic update is fatal, WordPress takes back what it
		 * kept under this name.
		 */
		public string $folder;
		/** Its folder. */
		public string $path;
		/** The file with its header. */
		public string $file;
		/** @var array<string, string> */
		private array $headers = [];

		/** @param string $slug The folder of a plugin that is one file alone. */
		public static function plugin( string $file, string $slug ): self {
			$plugin         = new self();
			$plugin->type   = 'plugin';
			$plugin->id     = plugin_basename( $file );
			$plugin->folder = '.' === dirname( $plugin->id ) ? $slug : dirname( $plugin->id );
			$plugin->path   = dirname( $file );
			$plugin->file   = $file;
			return $plugin;
		}

		public static function theme( string $path ): self {
			$theme         = new self();
			$theme->type   = 'theme';
			$theme->path   = untrailingslashit( $path );
			$theme->file   = $theme->path . '/style.css';
			$theme->id     = self::stylesheet( $theme->path );
			$theme->folder = basename( $theme->id );
			return $theme;
		}

		/** PHP follows links in the path of a file; WordPress knows a theme by where the link is. */
		private static function stylesheet( string $path ): string {
			$found = [ get_option( 'template' ) => get_template_directory(), get_option( 'stylesheet' ) => get_stylesheet_directory() ];
			foreach ( $found as $stylesheet => $folder ) {
				if ( realpath( $folder ) === realpath( $path ) ) {
					return (string) $stylesheet;
				}
			}
			return basename( $path );
		}

		public function is_theme(): bool {
			return 'theme' === $this->type;
		}

		/** What it calls itself. */
		public function name(): string {
			return $this->header( $this->is_theme() ? 'Theme Name' : 'Plugin Name' );
		}

		/** A field of its header, read from its file once a page. */
		public function header( string $field ): string {
			if ( ! isset( $this->headers[ $field ] ) ) {
				$this->headers[ $field ] = get_file_data( $this->file, [ 'value' => $field ] )['value'];
			}
			return $this->headers[ $field ];
		}

		/** Whether the main site answers for all sites of the network. */
		public function is_network_wide(): bool {
			if ( ! is_multisite() ) {
				return false;
			}
			if ( ! $this->is_theme() ) {
				return isset( get_site_option( 'active_sitewide_plugins', [] )[ $this->id ] );
			}
			$main    = get_main_site_id();
			$on_main = [ get_blog_option( $main, 'template' ), get_blog_option( $main, 'stylesheet' ) ];
			// Where it is not this site's theme either, the network's own code loads this file.
			return in_array( $this->id, $on_main, true ) || ! in_array( $this->id, [ get_option( 'template' ), get_option( 'stylesheet' ) ], true );
		}

		/** What WordPress calls what it keeps of its last look for updates, and the right to install them. */
		public function updates(): string {
			return 'update_' . $this->type . 's';
		}

		/**
		 * Whether an update is about it.
		 *
		 * @param array<string, mixed> $extra What WordPress says of the update.
		 */
		public function is_in( array $extra ): bool {
			return ( $extra[ $this->type ] ?? '' ) === $this->id;
		}

		/** A file of its own as people find it: `acme-forms/license/client.php`. */
		public function relative( string $file ): string {
			$path = wp_normalize_path( $this->path );
			$file = wp_normalize_path( $file );
			return 0 === strpos( $file, $path . '/' ) ? $this->folder . substr( $file, strlen( $path ) ) : basename( $file );
		}

		/** Calls back when a site stops using it. */
		public function on_deactivation( callable $callback ): void {
			if ( ! $this->is_theme() ) {
				register_deactivation_hook( $this->file, $callback );
				return;
			}
			add_action(
				'switch_theme',
				function ( $name, $theme ) use ( $callback ): void {
					// A child theme goes on using its parent.
					in_array( $this->id, [ $theme->get_stylesheet(), $theme->get_template() ], true ) || $callback();
				},
				10,
				2
			);
		}
	}

	/**
	 * The license of this site as it is stored, and when the server is asked again.
	 */
	class Stored_License {

		protected Config $config;

		public function __construct( Config $config ) {
			$this->config = $config;
		}

		public function hook(): void {
			add_action( 'init', [ $this, 'schedule' ] );
			$this->config->extension->on_deactivation( [ $this, 'unschedule' ] );
		}

		public function memory(): Memory {
			$name   = $this->config->name();
			$stored = $this->config->network ? get_site_option( $name ) : get_option( $name );
			if ( false === $stored && $this->config->network ) {
				// This was a single site before it became a network.
				$stored = get_blog_option( get_main_site_id(), $name );
			}
			$memory = Memory::from( $stored );
			$fixed  = $this->config->fixed_key();
			if ( null !== $fixed && $fixed !== $memory->key ) {
				$host         = $memory->host();
				$memory       = new Memory();
				$memory->key  = $fixed;
				$memory->host = $host;
			}
			return $memory;
		}

		/** Whether nothing may be changed because the license is for another host than this request's. */
		public function is_elsewhere(): bool {
			$memory = $this->memory();
			return '' !== $memory->key && $this->config->is_elsewhere( $memory );
		}

		/** Whether the key of the plugin's former client was not looked for yet, and is needed. */
		public function may_take_over(): bool {
			$memory = $this->memory();
			return '' !== $this->config->key_from && '' === $memory->key && ! $memory->looked_for_former && null === $this->config->fixed_key();
		}

		/** Keeps a validation planned for when it is due. */
		public function schedule(): void {
			if ( $this->config->network && $this->config->extension->is_network_wide() && ! is_main_site() ) {
				return;
			}
			$memory = $this->memory();
			if ( '' === $memory->key || $this->config->is_elsewhere( $memory ) ) {
				return;
			}
			$planned = (int) wp_next_scheduled( $this->config->name() );
			$due     = time() + max( MINUTE_IN_SECONDS, $memory->wait() );
			if ( ! $planned || $planned > $due ) {
				$this->reschedule( $due );
			}
		}

		public function unschedule(): void {
			wp_clear_scheduled_hook( $this->config->name() );
		}

		protected function reschedule( int $when ): void {
			$this->unschedule();
			wp_schedule_single_event( $when, $this->config->name() );
		}
	}

	/**
	 * All that is remembered, in one option: the key, the last verified statement, and how much of its grace is spent.
	 */
	final class Memory {

		public const CONDITION_NO_KEY     = 'no_key';
		public const CONDITION_PENDING    = 'pending';
		public const CONDITION_ACTIVE     = 'active';
		public const CONDITION_GRACE      = 'grace';
		public const CONDITION_GRACE_OVER = 'grace_over';

		/** The license key: in canonical form, or as another system wrote it. */
		public string $key = '';
		/** The host that a person activated the key on; empty where that was before this was kept, or never. */
		public string $host = '';
		/** @var array<string, mixed>|null The last verified statement, as Statement::verify gives it. */
		public ?array $statement = null;
		/** Seconds of grace spent until $seen. */
		public int $spent = 0;
		/** The clock when $spent was last brought up to date. */
		public int $seen = 0;
		/** Questions without an answer since the last verified statement. */
		public int $failures = 0;
		/** Why the last question had no answer, for people who give support. */
		public string $trouble = '';
		/** When to ask again. */
		public int $next_question = 0;
		/** When the server allows another question at the earliest. */
		public int $retry_not_before = 0;
		/** The base_url of the server, for when the plugin is deleted. */
		public string $server = '';
		/** Whether the former client's key was looked for, or a person removed a license: no key is taken over after that. */
		public bool $looked_for_former = false;

		/** @param mixed $stored What the option holds. */
		public static function from( $stored ): self {
			$memory = new self();
			foreach ( get_object_vars( $memory ) as $name => $blank ) {
				$value = is_array( $stored ) ? ( $stored[ $name ] ?? $blank ) : $blank;
				// What another version or a damaged database left is not worth a broken site.
				if ( gettype( $value ) === gettype( $blank ?? [] ) ) {
					$memory->$name = $value;
				}
			}
			if ( null !== $memory->statement && '' !== Statement::flaw( $memory->statement ) ) {
				$memory->statement = null;
			}
			return $memory;
		}

		/**
		 * Seconds since the last verified statement.
		 *
		 * SECURITY: a step of the clock counts in both directions. A person who turns it back spends as much grace as he
		 * tried to win, and a server that merely corrects its clock loses no more than the correction.
		 */
		public function elapsed(): int {
			// In a PHP of 32 bits the sum may be no integer.
			return (int) min( PHP_INT_MAX, $this->spent + abs( time() - $this->seen ) );
		}

		/** Writes the clock down, so that a later step back shows. */
		public function look_at_clock(): void {
			$this->spent = $this->elapsed();
			$this->seen  = time();
		}

		/**
		 * A verified statement is the news: it replaces the last one, and its grace begins.
		 *
		 * @param array<string, mixed> $statement
		 */
		public function learn( string $key, array $statement ): void {
			$this->key              = $key;
			$this->host             = $statement['domain'];
			$this->statement        = $statement;
			$this->spent            = 0;
			$this->seen             = time();
			$this->failures         = 0;
			$this->trouble          = '';
			$this->retry_not_before = 0;
		}

		/** The host that the license is for; empty where nobody has said yet. */
		public function host(): string {
			return '' !== $this->host ? $this->host : (string) ( $this->statement['domain'] ?? '' );
		}

		public function grants(): bool {
			return null !== $this->statement && 'active' === $this->statement['status'];
		}

		public function is_active(): bool {
			return $this->grants() && $this->elapsed() <= $this->grace();
		}

		/** The whole grace period in seconds; two hours at least, or the license would lapse between two validations. */
		public function grace(): int {
			$longest = intdiv( PHP_INT_MAX, HOUR_IN_SECONDS );
			return $this->grants() ? max( 2, min( $longest, $this->statement['grace_period_hours'] ) ) * HOUR_IN_SECONDS : 0;
		}

		/** When the grace period ends, as time() counts; the last moment that this PHP knows where it ends later. */
		public function ends(): int {
			return (int) min( PHP_INT_MAX, time() + $this->grace() - $this->elapsed() );
		}

		/** Seconds until the server may be asked again; what it asked for is a day at most, so more is another clock's. */
		public function pause(): int {
			$pause = $this->retry_not_before - time();
			return $pause <= DAY_IN_SECONDS ? max( 0, $pause ) : 0;
		}

		/**
		 * Seconds until the next question in the background. What a clock that was ahead has planned is not waited for, and
		 * neither is there a reason to wait where the statement was lost, or its grace ran out, without a question.
		 */
		public function wait(): int {
			$wait      = $this->next_question - time();
			$went_back = $this->seen > time() + HOUR_IN_SECONDS || $wait > DAY_IN_SECONDS;
			$lapsed    = null === $this->statement || ( $this->grants() && ! $this->is_active() );
			return $went_back || ( $lapsed && ! $this->failures ) ? $this->pause() : max( 0, $wait );
		}

		/** The days that are left, today not counted; null where no license is active, or it has no end. */
		public function days_left(): ?int {
			$last = strtotime( ( $this->statement['expires'] ?? '' ) . ' UTC' );
			$now  = (int) strtotime( gmdate( 'Y-m-d' ) . ' UTC' );
			return $this->grants() && $last ? intdiv( $last - $now, DAY_IN_SECONDS ) : null;
		}

		/** Whether the site shows nothing of the vendor and of the license: no address of theirs, and no part of the key. */
		public function is_white_label(): bool {
			return ! empty( $this->statement['white_label'] );
		}

		/** Where the license is renewed: for this license, as the server says, or else as the plugin says for all; empty if neither does. */
		public function renew_url( Config $config ): string {
			$url = $this->shop_url( 'renew_url' );
			return '' === $url && ! $this->is_white_label() ? $config->renew_url : $url;
		}

		/** Where the customer manages licenses: as the plugin says, or else the page of the server; empty if neither has one. */
		public function account_url( Config $config ): string {
			return '' === $config->account_url || $this->is_white_label() ? $this->shop_url( 'account_url' ) : $config->account_url;
		}

		/** Where something else is bought for this license; empty if the server does not say it. */
		public function upgrade_url(): string {
			return $this->grants() ? $this->shop_url( 'upgrade_url' ) : '';
		}

		private function shop_url( string $member ): string {
			$url = $this->statement[ $member ] ?? '';
			return is_string( $url ) && Config::is_safe( $url ) ? $url : '';
		}

		/** What an administrator should know: the condition, or that the license ends in 30, 7 or 1 days. */
		public function concern(): string {
			$condition = $this->condition();
			// A renewal is to come: the end of the paid period is no end.
			if ( self::CONDITION_ACTIVE !== $condition || null === $this->days_left() || ! empty( $this->statement['renews'] ) ) {
				return $condition;
			}
			foreach ( [ 1, 7, 30 ] as $days ) {
				if ( $this->days_left() <= $days ) {
					return 'ends_' . $days;
				}
			}
			return $condition;
		}

		public function condition(): string {
			if ( '' === $this->key ) {
				return self::CONDITION_NO_KEY;
			}
			if ( null === $this->statement ) {
				return self::CONDITION_PENDING;
			}
			if ( ! $this->grants() ) {
				return (string) $this->statement['code'];
			}
			if ( ! $this->is_active() ) {
				return self::CONDITION_GRACE_OVER;
			}
			return $this->failures && $this->elapsed() > DAY_IN_SECONDS ? self::CONDITION_GRACE : self::CONDITION_ACTIVE;
		}
	}

	/**
	 * The signed answer to a validation.
	 */
	final class Statement {

		/**
		 * Verifies the bytes that were received, and reads nothing but the bytes that were verified.
		 *
		 * @param string[]              $public_keys    PEM; the ones that came with the plugin, never one that was fetched.
		 * @param array<string, string> $expected       Members that must be exactly these.
		 * @param string                $last_issued_at Of the last verified statement, or an empty string.
		 * @return array<string, mixed>
		 * @throws Not_Genuine Where it is not to be believed.
		 */
		public static function verify( string $body, array $public_keys, array $expected, string $last_issued_at ): array {
			if ( ! function_exists( 'openssl_verify' ) ) {
				throw new Not_Genuine( 'PHP has no OpenSSL here, so nothing can be verified' );
			}
			// A quote within a text is escaped, so this is nowhere but at a member of that name.
			if ( ! preg_match( '/^(.*?)"signature":"([^"]*)",(.*)$/Ds', $body, $parts ) ) {
				throw new Not_Genuine( 'no signature' );
			}
			$signed = $parts[1] . $parts[3];
			if ( ! self::is_signed( $signed, (string) base64_decode( $parts[2], true ), $public_keys ) ) {
				throw new Not_Genuine( 'the signature is wrong' );
			}
			$statement = self::read( $signed );
			foreach ( $expected as $member => $value ) {
				// SECURITY: without the license's id, the signed refusal of any other key would take this license away. Older
				// servers do not name it.
				$is_optional = 'license_id' === $member && ! array_key_exists( $member, $statement );
				if ( ! $is_optional && $value !== ( $statement[ $member ] ?? null ) ) {
					throw new Not_Genuine( "it has another $member" );
				}
			}
			// Both are written alike, so the order of the texts is the order of the times.
			if ( strcmp( $statement['issued_at'], $last_issued_at ) < 0 ) {
				throw new Not_Genuine( 'it is older than the last one' );
			}
			unset( $statement['nonce'], $statement['site_url'] );
			return $statement;
		}

		/** The host of an address, as the server writes it in `domain`. */
		public static function host( string $url ): string {
			$host = (string) wp_parse_url( trim( $url ), PHP_URL_HOST );
			if ( filter_var( trim( $host, '[]' ), FILTER_VALIDATE_IP, FILTER_FLAG_IPV6 ) ) {
				return '[' . inet_ntop( (string) inet_pton( trim( $host, '[]' ) ) ) . ']';
			}
			if ( preg_match( '/[^\x00-\x7F]/', $host ) ) {
				$host = self::to_ascii( $host );
			}
			$host = preg_replace( '/\.$/', '', strtolower( $host ) );
			return (string) preg_replace( '/^(www\.)+(?=[^.]+\.)/', '', (string) $host );
		}

		/** @param string[] $public_keys */
		private static function is_signed( string $signed, string $signature, array $public_keys ): bool {
			foreach ( $public_keys as $pem ) {
				$key = openssl_pkey_get_public( $pem );
				// SECURITY: openssl_verify says 1 for yes, 0 for no, -1 or false for an error; only 1 is a yes.
				if ( $key && 1 === openssl_verify( $signed, $signature, $key, OPENSSL_ALGO_SHA256 ) ) {
					return true;
				}
			}
			return false;
		}

		/**
		 * What is wrong with a statement's members; empty where each is there and of its type.
		 *
		 * @param mixed $members
		 */
		public static function flaw( $members ): string {
			$kinds = [
				'status'             => 'is_string',
				'code'               => 'is_string',
				'issued_at'          => 'is_string',
				'grace_period_hours' => 'is_int',
				'domain'             => 'is_string',
				'modules'            => [ __CLASS__, 'are_texts' ],
				'features'           => 'is_array',
			];
			foreach ( $kinds as $member => $is_kind ) {
				if ( ! is_array( $members ) || ! isset( $members[ $member ] ) || ! $is_kind( $members[ $member ] ) ) {
					return "it has no $member";
				}
			}
			// These two are not in every statement.
			foreach ( [ 'expires', 'bound_domain' ] as $member ) {
				if ( ! is_string( $members[ $member ] ?? '' ) ) {
					return "its $member is not readable";
				}
			}
			$time = '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/D';
			return preg_match( $time, $members['issued_at'] ) ? '' : 'its time is not readable';
		}

		/**
		 * @return array<string, mixed>
		 * @throws Not_Genuine Where a member is missing or of another type.
		 */
		private static function read( string $json ): array {
			$members = json_decode( $json, true, 8 );
			if ( '' !== self::flaw( $members ) ) {
				throw new Not_Genuine( self::flaw( $members ) );
			}
			return $members;
		}

		/** @param mixed $members */
		private static function are_texts( $members ): bool {
			return is_array( $members ) && array_filter( $members, 'is_string' ) === $members;
		}

		/**
		 * An internationalized name in its DNS form; without PHP's intl, with what WordPress has for it, which does
		 * not join combining characters nor map wide letters.
		 */
		private static function to_ascii( string $host ): string {
			if ( function_exists( 'idn_to_ascii' ) ) {
				return (string) idn_to_ascii( $host, IDNA_NONTRANSITIONAL_TO_ASCII, INTL_IDNA_VARIANT_UTS46 );
			}
			// It has another name since WordPress 6.2.
			$encoder = '\WpOrg\Requests\IdnaEncoder';
			$encoder = class_exists( $encoder ) ? $encoder : '\Requests_IDNAEncoder';
			try {
				return $encoder::encode( function_exists( 'mb_strtolower' ) ? mb_strtolower( $host ) : $host );
			} catch ( \Exception $reason ) {
				return '';
			}
		}
	}

	/**
	 * What a person may read, by name. Replace any of it with the setting `texts`.
	 */
	final class Texts {

		/** @var array<string, string>|callable(): array<string, string> */
		private $own;
		private string $domain;
		private string $filter;
		private Extension $extension;

		/** @param array<string, string>|callable(): array<string, string> $own A function is called when a text is needed. */
		public function __construct( $own, string $domain, string $filter, Extension $extension ) {
			$this->own       = $own;
			$this->domain    = $domain;
			$this->filter    = $filter;
			$this->extension = $extension;
		}

		/**
		 * A text with its placeholders filled in, `{plugin}` for the name of the plugin or theme among them, brackets around nothing removed; a name that is not known reads as a
		 * license that is not valid.
		 *
		 * @param array<string, string> $values
		 */
		public function get( string $name, array $values = [] ): string {
			$own     = is_callable( $this->own ) ? ( $this->own )() : $this->own;
			$texts   = (array) apply_filters( $this->filter, $own + $this->all() );
			$unknown = 0 === strpos( $name, 'is_' ) ? 'is_invalid' : 'invalid';
			$text    = strtr( (string) ( $texts[ $name ] ?? $texts[ $unknown ] ?? '' ), $values + [ '{plugin}' => $this->extension->name() ] );
			return (string) preg_replace( '/ \((\{\w+\})?\)/', '', $text );
		}

		/** @return array<string, string> */
		private function all(): array {
			$d = $this->domain;
			return [
				'incomplete' => __( 'The file {file} is missing, damaged or of another version. Please upload {plugin} again. Until then, its license is not checked, and it gets no updates.', $d ),
			] + ( Loader::load() ? All_Texts::in( $d ) : [] );
		}
	}

	/**
	 * License keys: 25 symbols of Crockford's base32, the last five of them Reed-Solomon check symbols over GF(32). And keys of
	 * other systems, which have no check symbols.
	 */
	final class License_Key {

		private const ALPHABET  = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
		private const SEPARATOR = '/[ \t\r\n\f_\x{00A0}\x{200B}\x{2010}-\x{2015}\x{2212}\x{FEFF}-]+/u';

		/** What is XORed onto the five check symbols: `KEY01`. */
		private const CHECK_MASK = [ 19, 14, 30, 0, 1 ];

		/** A key of another system, as the server takes it. Its case does not matter there. */
		private const FOREIGN = '/^[\x21-\x7E]{16,128}$/D';

		/**
		 * Reads what a person typed. An error is pointed at and never corrected.
		 *
		 * A foreign key may have the form of ours: one in 116 of those looks like a key of ours with one or two typing errors. So
		 * the server is asked about it, and the groups are for when it says that there is a typing error.
		 *
		 * @param bool $foreign Whether keys of another system are keys, too.
		 * @return array{key?: string, error?: string, groups?: int[]} The key, canonical if it is one of ours; or a Texts name; and
		 *                                                              the groups, counted from 1, that look wrong.
		 */
		public static function read( string $typed, bool $foreign = false ): array {
			$read = self::read_ours( $typed );
			if ( ! $foreign || isset( $read['key'] ) || 'key_missing' === $read['error'] ) {
				return $read;
			}
			$key = trim( $typed, " \t\r\n" );
			if ( ! preg_match( self::FOREIGN, $key ) ) {
				return [ 'error' => 'key_unreadable', 'groups' => [] ];
			}
			return [ 'key' => $key, 'groups' => 'key_mistyped' === $read['error'] ? $read['groups'] : [] ];
		}

		/**
		 * The id that the server gives a license.
		 *
		 * @param string $key As it was read. Of a key of another system, the case does not matter.
		 * @return string A SHA-256 in hex.
		 */
		public static function id( string $key ): string {
			// Before PHP 8.2, strtolower() does what the locale says.
			$small = strtr( $key, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz' );
			return hash( 'sha256', isset( self::read_ours( $key )['key'] ) ? $key : $small );
		}

		/** @return array{key?: string, error?: string, groups?: int[]} */
		private static function read_ours( string $typed ): array {
			$groups = strlen( $typed ) > 128 ? false : preg_split( self::SEPARATOR, $typed, -1, PREG_SPLIT_NO_EMPTY );
			if ( ! $groups ) {
				return [ 'error' => [] === $groups ? 'key_missing' : 'key_malformed', 'groups' => [] ];
			}
			$groups  = array_map( [ __CLASS__, 'tidy' ], $groups );
			$symbols = implode( '', $groups );
			if ( 25 !== strlen( $symbols ) || 25 !== strspn( $symbols, self::ALPHABET ) ) {
				return [ 'error' => 'key_malformed', 'groups' => self::misshapen( $groups ) ];
			}
			$word     = array_map( [ __CLASS__, 'value' ], str_split( $symbols ) );
			$syndrome = self::syndrome( $word );
			if ( array_filter( $syndrome ) ) {
				return [ 'error' => 'key_mistyped', 'groups' => self::suspects( $syndrome ) ];
			}
			return [ 'key' => implode( '-', str_split( $symbols, 5 ) ) ];
		}

		private static function tidy( string $group ): string {
			return strtr( strtoupper( $group ), 'OIL', '011' );
		}

		private static function value( string $symbol ): int {
			return (int) strpos( self::ALPHABET, $symbol );
		}

		/**
		 * @param string[] $groups As typed.
		 * @return int[]
		 */
		private static function misshapen( array $groups ): array {
			$wrong = [];
			foreach ( 5 === count( $groups ) ? $groups : [] as $index => $group ) {
				if ( 5 !== strlen( $group ) || 5 !== strspn( $group, self::ALPHABET ) ) {
					$wrong[] = $index + 1;
				}
			}
			return $wrong;
		}

		/**
		 * The word's polynomial at 2^1 to 2^5; all zero for a key.
		 *
		 * @param int[] $word
		 * @return int[]
		 */
		private static function syndrome( array $word ): array {
			$syndrome = [];
			foreach ( [ 1, 2, 3, 4, 5 ] as $power ) {
				$sum = 0;
				foreach ( $word as $index => $symbol ) {
					$sum = self::times( $sum, self::power( $power ) ) ^ $symbol ^ ( self::CHECK_MASK[ $index - 20 ] ?? 0 );
				}
				$syndrome[] = $sum;
			}
			return $syndrome;
		}

		/**
		 * The groups of the one or two symbols which, if others stood there, would make this a key; none if there are more.
		 *
		 * @param int[] $syndrome
		 * @return int[]
		 */
		private static function suspects( array $syndrome ): array {
			// One wrong symbol, which is a distance of 0, before two.
			for ( $distance = 0; $distance < 25; $distance++ ) {
				for ( $first = 0; $first + $distance < 25; $first++ ) {
					$second = $first + $distance;
					if ( self::explains( 24 - $first, 24 - $second, $syndrome ) ) {
						return array_values( array_unique( [ intdiv( $first, 5 ) + 1, intdiv( $second, 5 ) + 1 ] ) );
					}
				}
			}
			return [];
		}

		/**
		 * Whether errors at two powers of x, or at one, give this syndrome: s(j) = a·2^(jx) + b·2^(jy).
		 *
		 * With p = 2^x and q = 2^y that is a sequence with s(j+2) = (p + q)·s(j+1) + p·q·s(j).
		 *
		 * @param int[] $s
		 */
		private static function explains( int $x, int $y, array $s ): bool {
			$p = self::power( $x );
			$q = $x === $y ? 0 : self::power( $y );
			for ( $j = $x === $y ? 1 : 2; $j < 5; $j++ ) {
				$expected = self::times( $p ^ $q, $s[ $j - 1 ] ) ^ ( $q ? self::times( self::times( $p, $q ), $s[ $j - 2 ] ) : 0 );
				if ( $expected !== $s[ $j ] ) {
					return false;
				}
			}
			return true;
		}

		/** 2 to a power, in GF(32). */
		private static function power( int $exponent ): int {
			$value = 1;
			while ( $exponent-- > 0 ) {
				$value = self::times( $value, 2 );
			}
			return $value;
		}

		/** Multiplication in GF(32), field polynomial x^5 + x^2 + 1. */
		private static function times( int $a, int $b ): int {
			for ( $product = 0; $b; $b >>= 1 ) {
				$product ^= $b & 1 ? $a : 0;
				$a        = $a << 1 ^ ( $a & 16 ? 0x25 : 0 );
			}
			return $product;
		}
	}

elseif ( ! defined( __NAMESPACE__ . '\Client::VERSION' ) && ! class_exists( __NAMESPACE__ . '\Release', false ) ) :

	/**
	 * An older copy of this file was loaded first, because two plugins share a namespace, and it knows no release keys.
	 *
	 * SECURITY: it would install whatever the server names. Where this plugin pins release keys, it gets no update from it.
	 */
	add_filter(
		'upgrader_pre_download',
		function ( $reply, $package, $upgrader, $extra = [] ) {
			$top      = function ( string $path ): string {
				return explode( '/', $path )[0];
			};
			$here     = wp_normalize_path( __FILE__ );
			$themes   = trailingslashit( wp_normalize_path( get_theme_root() ) );
			$is_theme = 0 === strpos( $here, $themes );
			$root     = $is_theme ? $themes : trailingslashit( wp_normalize_path( WP_PLUGIN_DIR ) );
			$folder   = $top( $is_theme ? substr( $here, strlen( $themes ) ) : plugin_basename( __FILE__ ) );
			if ( is_wp_error( $reply ) || $top( (string) ( $extra[ $is_theme ? 'theme' : 'plugin' ] ?? '' ) ) !== $folder ) {
				return $reply;
			}
			// Settings of a client that was made by the older copy are lost; what the plugin's code says is not.
			$files = new \RecursiveIteratorIterator( new \RecursiveDirectoryIterator( $root . $folder, \FilesystemIterator::SKIP_DOTS ) );
			foreach ( $files as $file ) {
				$is_client = in_array( $file->getFilename(), [ basename( __FILE__ ), 'countersign-client-admin.php' ], true );
				$is_other  = 'php' === $file->getExtension() && $file->isFile() && ! $is_client;
				if ( $is_other && false !== strpos( (string) file_get_contents( $file->getPathname() ), 'release_keys' ) ) {
					$text = 'The update was refused: this plugin installs only what its vendor has signed, and an older copy of its license client, from another plugin on this site, cannot check that. Please tell the vendor.';
					return new \WP_Error( 'countersign_release_older_client', esc_html( $text ) );
				}
			}
			return $reply;
		},
		PHP_INT_MAX,
		4
	);

endif;
