// Drives a server with openapi-fetch and the types that openapi-typescript generated from the published interface: schema.d.ts.
//
// Usage: node generated_client.mjs URL TOKEN LICENSE_KEY
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

// The types of Node.js are not installed.
declare const process: { argv: string[] };

function isEqual(actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`);
}

const [baseUrl, token, licenseKey] = process.argv.slice(2) as [string, string, string];
const site = "https://generated.example";

const sites = createClient<paths>({ baseUrl });
const validated = await sites.POST("/api/v1/validate-license", { body: { license_key: licenseKey, site_url: site } });
const statement: components["schemas"]["Statement"] | undefined = validated.data;
isEqual(statement?.status, "active");
const update = await sites.GET("/api/v1/updates/{plugin}", {
  params: { path: { plugin: "acme-forms" }, query: { site_url: site } },
  headers: { Authorization: `License ${licenseKey}` },
});
isEqual(update.data && "slug" in update.data && update.data.slug, "acme-forms");
const refused = await sites.POST("/api/v1/validate-license", { body: { license_key: licenseKey, site_url: "not a site" } });
isEqual(refused.error?.errors?.[0]?.pointer, "#/site_url");

const programs = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const issued = await programs.POST("/api/v1/licenses", {
  params: { header: { "Idempotency-Key": "typescript" } },
  body: { modules: { "acme-forms": ["export"] }, expires: "never", sites: "unlimited" },
});
const license: components["schemas"]["License"] | undefined = issued.data;
isEqual(license?.sites, "unlimited");
const id = license!.id;
const again = await programs.GET("/api/v1/licenses/{id}", { params: { path: { id } } });
isEqual(again.data?.id, id);
const suspended = await programs.POST("/api/v1/licenses/{id}/suspend", { params: { path: { id } } });
isEqual(suspended.data?.standing, "suspended");
const wrong = await programs.POST("/api/v1/licenses", {
  params: { header: { "Idempotency-Key": "wrong" } },
  body: { modules: { "acme-forms": [] }, expires: "tomorrow" },
});
isEqual(wrong.error?.errors?.[0]?.pointer, "#/expires");
console.log("done");
