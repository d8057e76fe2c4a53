// Signs deliveries as shops do. Each line of standard input is {shop, secret, body}; each line of output has the header and what
// the shop's own SDK says of it. Stripe's SDK signs. Paddle's SDK only verifies, and Lemon Squeezy's and WooCommerce's do
// neither: these are signed by Node's crypto as the shops document it.
import { createHmac } from 'node:crypto';
import { createInterface } from 'node:readline';
import { Paddle } from '@paddle/paddle-node-sdk';
import Stripe from 'stripe';

const { webhooks } = new Stripe('sk_test_none');
const paddle = new Paddle('none').webhooks;
const mac = (secret, text, form) => createHmac('sha256', secret).update(text).digest(form);

function accepts(check) {
  try {
    return check();
  } catch {
    return false;
  }
}

async function sign(shop, secret, body) {
  const seconds = Math.floor(Date.now() / 1000);
  switch (shop) {
    case 'stripe': {
      const header = webhooks.generateTestHeaderString({ payload: body, secret, timestamp: seconds });
      const right = (text) => accepts(() => Boolean(webhooks.constructEvent(text, header, secret)));
      return { header, seconds, right: right(body), forged: right(body + ' ') };
    }
    case 'paddle': {
      const header = `ts=${seconds};h1=${mac(secret, `${seconds}:${body}`, 'hex')}`;
      const right = (text) => paddle.isSignatureValid(text, secret, header);
      return { header, seconds, right: await right(body), forged: await right(body + ' ') };
    }
    case 'lemonsqueezy':
      return { header: mac(secret, body, 'hex'), seconds };
    case 'woocommerce':
      return { header: mac(secret, body, 'base64'), seconds };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { shop, secret, body } = JSON.parse(line);
  console.log(JSON.stringify(await sign(shop, secret, body)));
}
