<?php
/**
 * Plugin Name:       Acme PDF
 * Plugin URI:        https://example.com/acme-pdf
 * Description:       Adds a print button to any page: write [acme_pdf], and visitors can save the page as a PDF.
 * Version:           {version}
 * Requires at least: 6.2
 * Requires PHP:      7.4
 * Author:            Acme
 * Author URI:        https://example.com
 * License:           GPL-2.0-or-later
 * License URI:       https://www.gnu.org/licenses/gpl-2.0.html
 * Text Domain:       acme-pdf
 */

if ( ! defined( 'ABSPATH' ) ) {
	exit;
}

define( 'ACME_PDF_VERSION', '{version}' );

/**
 * Renders a button that opens the browser's print window.
 */
function acme_pdf_render() {
	return '<button onclick="window.print()">' . esc_html__( 'Save as PDF', 'acme-pdf' ) . '</button>';
}
add_shortcode( 'acme_pdf', 'acme_pdf_render' );
