<?php
/**
 * Plugin Name:       Acme Forms
 * Plugin URI:        https://example.com/acme-forms
 * Description:       A small contact form for any page: write [acme_form] where it belongs.
 * Version:           {version}
 * Requires at least: 6.2
 * Requires PHP:      7.4
 * Author:            Acme
 * Author URI:        https://example.com
 * License:           GPL-2.0-or-later
 * License URI:       https://www.gnu.org/licenses/gpl-2.0.html
 * Text Domain:       acme-forms
 */

if ( ! defined( 'ABSPATH' ) ) {
	exit;
}

define( 'ACME_FORMS_VERSION', '{version}' );

/**
 * Renders the form, and mails what a visitor sent to the site's administrator.
 */
function acme_forms_render() {
	$nonce = isset( $_POST['acme_forms_nonce'] ) ? sanitize_key( wp_unslash( $_POST['acme_forms_nonce'] ) ) : '';
	if ( wp_verify_nonce( $nonce, 'acme_forms' ) && ! empty( $_POST['acme_forms_message'] ) ) {
		$message = sanitize_textarea_field( wp_unslash( $_POST['acme_forms_message'] ) );
		wp_mail( get_option( 'admin_email' ), __( 'A message from your site', 'acme-forms' ), $message );
		return '<p>' . esc_html__( 'Thank you, your message was sent.', 'acme-forms' ) . '</p>';
	}
	return '<form method="post">'
		. wp_nonce_field( 'acme_forms', 'acme_forms_nonce', true, false )
		. '<label>' . esc_html__( 'Your message', 'acme-forms' )
		. ' <textarea name="acme_forms_message" required></textarea></label>'
		. '<button>' . esc_html__( 'Send', 'acme-forms' ) . '</button></form>';
}
add_shortcode( 'acme_form', 'acme_forms_render' );
