<?php
// Prints the template for translators of the WordPress client: every text that stands in a call of __(), once, in the order of
// its files, with its name in Texts as a comment.

$texts = [];
foreach (['countersign-client.php', 'countersign-client-admin.php'] as $name) {
    $code = file_get_contents(__DIR__ . '/../../../clients/wordpress/' . $name);
    $tokens = array_values(array_filter(token_get_all($code), fn($token) => !is_array($token) || T_WHITESPACE !== $token[0]));
    foreach ($tokens as $at => $token) {
        if (!is_array($token) || T_STRING !== $token[0] || '__' !== $token[1] || '(' !== $tokens[$at + 1]) {
            continue;
        }
        if (!is_array($tokens[$at + 2]) || T_CONSTANT_ENCAPSED_STRING !== $tokens[$at + 2][0] || ',' !== $tokens[$at + 3]) {
            fwrite(STDERR, "$name, line {$token[2]}: a text that is translated must stand there as it is\n");
            exit(1);
        }
        $text = strtr(substr($tokens[$at + 2][1], 1, -1), ["\\'" => "'", '\\\\' => '\\']);
        $texts[$text][] = trim($tokens[$at - 2][1], "'");
    }
}

echo <<<'POT'
# The texts of the countersign client for WordPress, for the translators of the plugin that carries it.
msgid ""
msgstr ""
"Project-Id-Version: countersign client\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"

POT;
foreach ($texts as $text => $names) {
    echo "\n#. ", implode(', ', array_unique($names)), "\nmsgid \"", addcslashes($text, "\"\\\n"), "\"\nmsgstr \"\"\n";
}
