<?php defined( 'ABSPATH' ) || exit; ?>
<!DOCTYPE html>
<html <?php language_attributes(); ?>>
<head>
	<meta charset="<?php bloginfo( 'charset' ); ?>">
	<?php wp_head(); ?>
</head>
<body <?php body_class(); ?>>
	<main>
		<?php
		while ( have_posts() ) {
			the_post();
			the_content();
		}
		// Asking costs nothing, so ask where the answer matters.
		if ( acme_shop_license()->has_feature( 'acme-shop', 'banner' ) ) {
			echo '<p class="acme-banner">Your message</p>';
		}
		?>
	</main>
	<?php wp_footer(); ?>
</body>
</html>
