// Runs PHP scripts under every PHP that is installed here as WebAssembly. Reads {"files": {path: text}, "scripts": [path]}
// from standard input; a JSON line for each has what it printed, what it complained of and its exit code.

import { File } from 'node:buffer';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

// Debian's Node 18 does not have it as a global.
globalThis.File ??= File;
const { PHP, loadPHPRuntime } = await import('@php-wasm/universal');

const { files, scripts } = JSON.parse(readFileSync(0, 'utf8'));
const builds = new URL('.php-versions/', import.meta.url);

for (const name of readdirSync(builds).filter((name) => name.endsWith('.js')).sort()) {
	const php = new PHP(await loadPHPRuntime(await import(new URL(name, builds)), {}));
	for (const [path, text] of Object.entries(files)) {
		php.mkdir(dirname(path));
		php.writeFile(path, text);
	}
	for (const script of scripts) {
		const answer = await php.run({ scriptPath: script }).catch((error) => error.response ?? { errors: String(error) });
		console.log(JSON.stringify({ name, script, text: answer.text, errors: answer.errors, exit: answer.exitCode }));
	}
	php.exit();
}
process.exit();
