// Makes checkouts with the shops' own SDKs, each with a renewal token where docs/shops.md puts it. Each line of standard input is
// {shop, token}; each line of output is {shop, requests}, with the bodies that the SDK would have sent. Nothing leaves the machine.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { createCheckout, lemonSqueezySetup } from '@lemonsqueezy/lemonsqueezy.js';
import { Paddle } from '@paddle/paddle-node-sdk';
import woocommerce from '@woocommerce/woocommerce-rest-api';
import Stripe from 'stripe';

const WooCommerce = woocommerce.default ?? woocommerce;
let sent = [];
globalThis.fetch = async (_, { body }) => {
  sent.push(body);
  return new Response('{"data":{}}', { headers: { 'Content-Type': 'application/json' } });
};
const woocommerceServer = createServer(async (request, response) => {
  let body = '';
  for await (const part of request) body += part;
  sent.push(body);
  response.setHeader('Content-Type', 'application/json');
  response.end('{}');
});
await new Promise((resolve) => woocommerceServer.listen(0, '127.0.0.1', resolve));

// Stripe's form: `a[b]=c` is {a: {b: 'c'}}.
function ofForm(text) {
  const object = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.replaceAll(']', '').split('[');
    let place = object;
    for (const part of path.slice(0, -1)) place = place[part] ??= {};
    place[path.at(-1)] = value;
  }
  return object;
}

async function checkouts(shop, token) {
  const items = [{ price: 'price_1', quantity: 1 }];
  switch (shop) {
    case 'stripe': {
      const { checkout } = new Stripe('sk_test_none', { httpClient: Stripe.createFetchHttpClient() });
      const success_url = 'https://shop.example/thanks';
      const metadata = { countersign: token };
      await checkout.sessions.create({ mode: 'payment', line_items: items, success_url, client_reference_id: token });
      await checkout.sessions.create({ mode: 'payment', line_items: items, success_url, metadata });
      await checkout.sessions.create({ mode: 'subscription', line_items: items, success_url, subscription_data: { metadata } });
      return sent.map(ofForm);
    }
    case 'paddle': {
      // The SDK fails on our empty answer, after it has sent the request.
      const customData = { countersign: token };
      await new Paddle('none').transactions.create({ items: [{ priceId: 'pri_1', quantity: 1 }], customData }).catch(() => {});
      break;
    }
    case 'lemonsqueezy':
      lemonSqueezySetup({ apiKey: 'none' });
      await createCheckout(1, 2, { checkoutData: { custom: { countersign: token } } });
      break;
    case 'woocommerce': {
      const url = `http://127.0.0.1:${woocommerceServer.address().port}`;
      const shop = new WooCommerce({ url, consumerKey: 'ck', consumerSecret: 'cs', version: 'wc/v3' });
      await shop.post('orders', { meta_data: [{ key: '_countersign_renew', value: token }] });
      break;
    }
  }
  return sent.map((body) => JSON.parse(body));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { shop, token } = JSON.parse(line);
  sent = [];
  console.log(JSON.stringify({ shop, requests: await checkouts(shop, token) }));
}
woocommerceServer.close();
