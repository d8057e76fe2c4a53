// Prints the RFC 8785 form of each line of standard input, by the npm package canonicalize.
import { createInterface } from 'node:readline';
import canonicalize from 'canonicalize';

for await (const line of createInterface({ input: process.stdin })) {
  console.log(canonicalize(JSON.parse(line)));
}
