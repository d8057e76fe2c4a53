<?php
// Prints what PHP's version_compare says of each pair in a JSON array on standard input, one result a line.

foreach (json_decode(file_get_contents('php://stdin'), true, 512, JSON_THROW_ON_ERROR) as [$a, $b]) {
    echo version_compare($a, $b), "\n";
}
